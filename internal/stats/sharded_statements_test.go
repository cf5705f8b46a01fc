package stats

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/waypost/waypost/db/dbtest"
)

// severalShards are the statements that may ask the shards of many sites, and why that is
// no harm. All others name one site.
var severalShards = map[string]string{
	"ClearSiteDaySalts":       "in the background, hourly",
	"ListSaltsToSeal":         "once after a change of the secret key",
	"ListImportSecretsToSeal": "once after a change of the secret key",
	"DestroyImportSecrets":    "in the background, daily",
	"ListUnsealedDays":        "in the background",
	"ListUnpackedDays":        "in the background",
	"ListDaysToFold":          "in the background",
	"ListRetentions":          "in the background, daily",
	"ListSitesToTrimLabels":   "in the background, hourly",
	"ListImports":             "an operator's list, of all sites if so asked",
	"FindImport":              "an operator's, who knows no site",
}

// ofOnePostgreSQL are the statements that are never run where tables are sharded, and what
// is run there instead.
var ofOnePostgreSQL = map[string]string{
	"ShareSiteDays":       "ShareShardDays",
	"MarkSiteDaysDirty":   "MarkShardDaysDirty",
	"InsertSiteDays":      "InsertShardDay",
	"UpdateSessionHeads":  "UpdateShardHeads",
	"ExtendSessions":      "ExtendShardSessions",
	"DeleteSessions":      "DeleteShardSessions",
	"CopyEvents":          "InsertShardEvents",
	"InsertEvents":        "InsertShardEvents",
	"ClaimReportedEvents": "ClaimShardReportedEvents",
	"AddSiteDrops":        "AddShardDrop",
	"TouchImportedLines":  "TouchShardImportedLines",
	"InsertImportedLines": "InsertShardImportedLines",
}

// statement is one of queries/statistics*.sql, without its comments.
type statement struct{ name, sql string }

var statementHead = regexp.MustCompile(`(?m)^-- name: (\w+) :\w+$`)

func statementsOfStatistics(t *testing.T) []statement {
	t.Helper()
	files, err := filepath.Glob("../../queries/statistics*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("queries: %v, %v", files, err)
	}
	var list []statement
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		heads := statementHead.FindAllSubmatchIndex(text, -1)
		for i, h := range heads {
			end := len(text)
			if i+1 < len(heads) {
				end = heads[i+1][0]
			}
			sql := regexp.MustCompile(`(?m)--.*$`).ReplaceAllString(string(text[h[1]:end]), "")
			list = append(list, statement{string(text[h[2]:h[3]]), sql})
		}
	}
	return list
}

// named returns which of tables a statement reads or writes, one entry for each mention.
func (s statement) named(tables []string) []string {
	var found []string
	for _, m := range regexp.MustCompile(`(?i)\b(?:from|join|into|update|using)\s+(\w+)`).FindAllStringSubmatch(s.sql, -1) {
		if slices.Contains(tables, m[1]) {
			found = append(found, m[1])
		}
	}
	return found
}

var (
	oneSite     = regexp.MustCompile(`site_id = @site_id\b`)
	insertsSite = regexp.MustCompile(`(?is)insert into \w+ \(site_id\b.*?(?:values \(|select )@site_id\b`)
	lockingRows = regexp.MustCompile(`(?i)\bfor (?:no key )?(?:key )?(?:update|share)\b`)
)

// rulesBroken says what a statement over sharded tables does that Citus refuses, or
// carries out on more servers than one.
func (s statement) rulesBroken(sharded []string, drawn map[string]string) []string {
	mentions := s.named(sharded)
	if len(mentions) == 0 {
		return nil
	}
	var broken []string
	_, several := severalShards[s.name]
	scalars := len(oneSite.FindAllString(s.sql, -1)) + len(insertsSite.FindAllString(s.sql, -1))
	if strings.Contains(s.sql, "@site_ids") {
		broken = append(broken, "takes several sites as an array")
	}
	if scalars == 0 && !several {
		broken = append(broken, "names no site as a scalar, and severalShards doesn't excuse it")
	}
	if lockingRows.MatchString(s.sql) && scalars == 0 {
		broken = append(broken, "locks rows of several shards")
	}
	if regexp.MustCompile(`(?i)exists \(select from`).MatchString(s.sql) {
		broken = append(broken, "selects no column, which Citus can't plan")
	}
	for table, column := range drawn {
		insert := regexp.MustCompile(`(?is)insert into ` + table + ` \(([^)]*)\)`).FindStringSubmatch(s.sql)
		if insert != nil && !slices.Contains(regexp.MustCompile(`\w+`).FindAllString(insert[1], -1), column) {
			broken = append(broken, "leaves "+table+"."+column+" to a sequence that no shard has")
		}
	}
	return broken
}

// shardedTables are those that waypost migrate distribute shards.
func shardedTables(t *testing.T) (tables []string, drawn map[string]string) {
	d := dbtest.New(t)
	tables = texts(t, d, ofSites+`select relname::text from of_sites where not exists (select from pg_trigger where tgrelid = of_sites.oid and tgname = 'audit_row')`)
	drawn = make(map[string]string)
	for _, column := range texts(t, d, ofSites+`select relname || '.' || a.attname from of_sites join pg_attrdef f on f.adrelid = of_sites.oid
join pg_attribute a on a.attrelid = f.adrelid and a.attnum = f.adnum where pg_get_expr(f.adbin, f.adrelid) like 'nextval(%'`) {
		table, name, _ := strings.Cut(column, ".")
		drawn[table] = name
	}
	return tables, drawn
}

func TestEveryStatementOfTheStatisticsIsOfOneSiteOrSaysWhyNot(t *testing.T) {
	t.Parallel()
	sharded, drawn := shardedTables(t)
	if len(sharded) < 10 || len(drawn) == 0 {
		t.Fatalf("sharded tables %v, with sequences %v: the catalog was misread", sharded, drawn)
	}
	known := make(map[string]bool)
	for _, s := range statementsOfStatistics(t) {
		known[s.name] = true
		if ofOnePostgreSQL[s.name] != "" {
			continue
		}
		for _, rule := range s.rulesBroken(sharded, drawn) {
			t.Errorf("%s %s", s.name, rule)
		}
	}
	for name := range severalShards {
		if !known[name] {
			t.Errorf("severalShards excuses %s, which is no statement", name)
		}
	}
	for name, instead := range ofOnePostgreSQL {
		if !known[name] || !known[instead] || ofOnePostgreSQL[instead] != "" {
			t.Errorf("%s of one PostgreSQL has no counterpart %s", name, instead)
		}
	}
}

func TestTheRulesOfShardedStatementsNoticeWhatBreaksThem(t *testing.T) {
	t.Parallel()
	sharded, drawn := []string{"site_days", "events"}, map[string]string{"events": "id"}
	for name, sql := range map[string]string{
		"an array of sites":     "update site_days d set state = 'dirty' from unnest(@site_ids::uuid[]) k where d.site_id = k",
		"no site":               "select day from site_days",
		"a lock over shards":    "select day from site_days where ends_at < @now for key share",
		"an empty list":         "select exists (select from events where site_id = @site_id)",
		"an id from a sequence": "insert into events (site_id, day) select @site_id, @day",
	} {
		if (statement{"Tried", sql}).rulesBroken(sharded, drawn) == nil {
			t.Errorf("%s is not noticed", name)
		}
	}
	fine := statement{"Tried", "insert into events (site_id, id) select d.site_id, @id from site_days d where d.site_id = @site_id for key share"}
	if broken := fine.rulesBroken(sharded, drawn); broken != nil {
		t.Errorf("%v", broken)
	}
}

func TestNoFunctionAsksShardedTablesForAnEmptyListOfColumns(t *testing.T) {
	t.Parallel()
	sharded, _ := shardedTables(t)
	empty := regexp.MustCompile(`(?is)exists\s*\(\s*select\s+from\s+(` + strings.Join(sharded, "|") + `)\b`)
	if !empty.MatchString("if exists (\n select from site_days d)") {
		t.Error("what Citus refuses is not noticed")
	}
	for _, source := range texts(t, dbtest.New(t), `select proname || ': ' || prosrc from pg_proc where pronamespace = 'public'::regnamespace`) {
		if empty.MatchString(source) {
			t.Errorf("Citus refuses the function %s", source)
		}
	}
}

// Citus refuses triggers and identity columns on sharded tables.
func TestNoShardedTableHasAnIdentityColumn(t *testing.T) {
	t.Parallel()
	if columns := texts(t, dbtest.New(t), ofSites+`select relname || '.' || a.attname from of_sites join pg_attribute a on a.attrelid = of_sites.oid where a.attidentity <> ''`); len(columns) > 0 {
		t.Errorf("identity columns: %v", columns)
	}
}
