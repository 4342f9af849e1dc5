import { defineConfig } from "vitest/config";

// The same test, with the command of this machine, and with the image: `vitest run --project command`.
const started = (name) => ({ test: { name, include: ["hot-partition.test.mjs"], globalSetup: `${name}.setup.mjs`, testTimeout: 30_000 } });

export default defineConfig({ test: { projects: [started("command"), started("container")] } });
