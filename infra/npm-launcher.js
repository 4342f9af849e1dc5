#!/usr/bin/env node
// Starts the program that the package of this platform holds. npm installs that package as an optional one, on its platform alone.
const { spawn } = require("node:child_process");
const { join, dirname } = require("node:path");

const name = `dynashard-${process.platform}-${process.arch}`;
let folder;
try {
  folder = dirname(require.resolve(`${name}/package.json`));
} catch {
  console.error(`dynashard: there is no program for ${process.platform} on ${process.arch} here: package ${name} is not installed. ` +
    "If npm was told to omit optional packages, install without that; otherwise build it from its source.");
  process.exit(1);
}
const child = spawn(join(folder, "bin", process.platform === "win32" ? "dynashard.exe" : "dynashard"), process.argv.slice(2), { stdio: "inherit" });
// A terminal sends its signals to both; what others send is passed on. This one ends when the program has.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`dynashard: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(code ?? (signal === "SIGINT" ? 130 : 143)));
