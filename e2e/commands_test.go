package e2e_test

// aToken is one of the person who signed in, for language models too.
const aToken = `$(curl -s "$WAYPOST_URL/api/auth/tokens" -H "Authorization: Bearer $token" -H 'Content-Type: application/json' -d '{"name":"models","scopes":["write","ai"]}' | jq -r .data.token)`

// aReadingToken is one that changes nothing.
const aReadingToken = `$(curl -s "$WAYPOST_URL/api/auth/tokens" -H "Authorization: Bearer $token" -H 'Content-Type: application/json' -d '{"name":"reader","scopes":["read"]}' | jq -r .data.token)`

// commands are the blocks of shell that are run, one after the other in one shell, in a
// directory in which dev has been started.
var commands = []struct {
	page, has string
	before    string   // what a reader has done
	replace   []string // pairs of what a reader puts something else for, and that
	wants     []string // regular expressions, of each of which the output has a match
	errors    int      // how many of the answers are errors
}{
	{page: "README.md", has: ". .waypost/dev.env"},
	{page: "README.md", has: `"title":"Hello"`, wants: []string{`"title":"Hello"`}},
	{page: "README.md", has: "nightly export", wants: []string{`"token":"wp_`}},
	{page: "README.md", has: "file=@README.md", wants: []string{`"data":\[\{`, `"filename":"README.md"|"name":"README.md"`, `"url":"http`}},
	{page: "README.md", has: `"model":"echo"`, wants: []string{`"chat.completion"`, `Hello`}},
	{page: "README.md", has: "openssl dgst", wants: []string{`"status":"processed"`, `"status":"skipped"`, `"invalid_signature"`, `"external_id":"evt_1"`}, errors: 1},
	{page: "README.md", has: "granularity=week", wants: []string{`"pageviews":[1-9]`, `"top":\[\{`, `"buckets":\[\{`}},
	{
		page: "README.md", has: "site create", replace: []string{"<site>", `$(waypost site list --json | jq -r '.[] | select(.domain=="blog.example.com").site')`},
		before: `printf '192.0.2.1 - - [05/Jan/2024:10:00:00 +0000] "GET /one HTTP/1.1" 200 12 "-" "Mozilla/5.0 (X11; Linux x86_64; rv:125.0) Gecko/20100101 Firefox/125.0"\n' > access.log`,
		wants:  []string{`(?i)1 imported|imported:? +1`},
	},
	{page: "webhooks.md", has: "webhook send", wants: []string{`200.*pending|pending`, `200.*processed|processed`}},
	{
		page: "webhooks.md", has: "admin GET", before: `. .waypost/dev.env
id=$(curl -s "$WAYPOST_URL/api/admin/webhooks?provider=acme&limit=1" -H "Authorization: Bearer $token" | jq -r '.data[0].id')`,
		replace: []string{"/replays/$replay ", "/replays/$(curl -s \"$WAYPOST_URL/api/admin/webhooks/replay\" -H \"Authorization: Bearer $token\" -H 'Content-Type: application/json' -d '{\"provider\":\"acme\",\"status\":\"failed\"}' | jq -r .data.id) ", "/replays/$replay/", "/replays/$(curl -s \"$WAYPOST_URL/api/admin/webhooks/replay\" -H \"Authorization: Bearer $token\" -H 'Content-Type: application/json' -d '{\"provider\":\"acme\",\"status\":\"failed\"}' | jq -r .data.id)/"},
		wants:   []string{`"attempts":\[`, `"target":"default"|"name":"default"`},
	},
	{
		page: "bots.md", has: "URL=https://api.example.com", replace: []string{"https://api.example.com", `"$WAYPOST_URL"`, `'{"email":"ada@example.com","password":"..."}'`, `"{\"email\":\"$WAYPOST_ADMIN_EMAIL\",\"password\":\"$WAYPOST_ADMIN_PASSWORD\"}"`},
		wants: []string{`(?m)^wp_\w+`},
	},
	{page: "bots.md", has: "export OPENAI_BASE_URL", replace: []string{"https://waypost.example", `"$WAYPOST_URL"`, "wp_...", aToken}},
	{page: "bots.md", has: "chat/completions", wants: []string{`"echo"`, `data: \[DONE\]`}},
	{page: "bots.md", has: "tools/call", before: `TOKEN=` + aReadingToken, replace: []string{"https://api.example.com", "$WAYPOST_URL"}, wants: []string{`"jsonrpc":"2.0"`, `First post\.`}},
	{page: "operations.md", has: "user create", replace: []string{"waypost user create", `echo "a password of Ada's" | waypost user create`}, wants: []string{`Created user \d+, ada@example.com, ADMIN`}},
	{page: "operations.md", has: "WAYPOST_SMTP_HOST=", before: "set -a", replace: []string{"WAYPOST_SMTP_PASSWORD=...\n", "WAYPOST_SMTP_PASSWORD=...\nwaypost openapi | head -c 20\nset +a\n"}, wants: []string{`openapi`}},
	{
		page: "audit.md", has: "verify --export", before: `curl -s "$WAYPOST_URL/api/admin/audit/key" -H "Authorization: Bearer $token" | jq -r .data.verifier_key > waypost.key
for i in $(seq 600); do test -s checkpoints.txt && break; sleep 0.1; done`,
		wants: []string{`(?is)(holds|ok|verified).*(holds|ok|verified)`},
	},
}
