// Starts a DynamoDB that refuses by partition in a container, by Testcontainers, and gives its address to the tests as `dynamodb`.
import { GenericContainer, Wait } from "testcontainers";

const ENGINE = ["local", "--engine-only", "--address", "0.0.0.0", "--partition-wcu", "10"];

export default async function setup(project) {
  const container = await new GenericContainer(process.env.DYNASHARD_IMAGE)
    .withCommand(ENGINE)
    .withExposedPorts(8000)
    .withWaitStrategy(Wait.forLogMessage('"ready":true'))
    .start();
  project.provide("dynamodb", `http://${container.getHost()}:${container.getMappedPort(8000)}`);
  return () => container.stop();
}
