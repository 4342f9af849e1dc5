// Starts a DynamoDB that refuses by partition on a free port of this machine, and gives its address to the tests as `dynamodb`.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

// A partition takes 10 writes a second here, so that few requests make one hot. On AWS it takes 1,000.
const ENGINE = ["local", "--engine-only", "--dynamodb-port", "0", "--partition-wcu", "10"];

export default async function setup(project) {
  const engine = spawn(process.env.DYNASHARD ?? "dynashard", ENGINE, { stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(engine, "exit");
  // It says where it is when it answers. If it ends before, it has said why on stderr.
  const lines = createInterface({ input: engine.stdout });
  const line = await Promise.race([once(lines, "line"), ended.then(([status]) => Promise.reject(new Error(`the engine ended with ${status}`)))]);
  project.provide("dynamodb", JSON.parse(line).dynamodb);
  return async () => {
    engine.kill("SIGTERM");
    const [status] = await ended;
    if (status !== 0) throw new Error(`the engine ended with ${status}`);
  };
}
