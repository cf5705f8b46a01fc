// Validates each file with swagger-parser, and prints how many operations it found.
import parser from "@apidevtools/swagger-parser";

const counts = [];
for (const file of process.argv.slice(2)) {
  const { paths } = await parser.validate(file);
  counts.push(Object.values(paths).flatMap((item) => Object.keys(item)).length);
}
console.log(JSON.stringify(counts));
