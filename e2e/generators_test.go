//go:build external

package e2e_test

import (
	"os"
	"path/filepath"
	"testing"
)

// TestGeneratorsMakeClientsThatCompileStrictly: each makes a client in TypeScript of the description as it
// is served, and the compiler in its strict mode has nothing against any of them.
func TestGeneratorsMakeClientsThatCompileStrictly(t *testing.T) {
	t.Parallel()
	npm := npmInstalled(t, filepath.Join("..", "tools", "npm", "generators"), "tsconfig.json")
	doc := writeDescription(t, "json")
	program := func(name string) string { return filepath.Join(npm, "node_modules", ".bin", name) }
	if err := os.MkdirAll(filepath.Join(npm, "out"), 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, npm, program("openapi-ts"), "-i", doc, "-o", "out/hey", "--no-log-file")
	run(t, npm, program("orval"), "--input", doc, "--output", "out/orval.ts", "--client", "fetch")
	run(t, npm, program("openapi-zod-client"), doc, "-o", "out/zod.ts")
	run(t, npm, program("swagger-typescript-api"), "generate", "-p", doc, "-o", "out", "-n", "sta.ts")
	for _, file := range []string{"hey/sdk.gen.ts", "orval.ts", "zod.ts", "sta.ts"} {
		if made, err := os.Stat(filepath.Join(npm, "out", file)); err != nil || made.Size() < 50_000 {
			t.Errorf("%s: %v, %v", file, made, err)
		}
	}
	run(t, npm, program("tsc"), "-p", "tsconfig.json")
}
