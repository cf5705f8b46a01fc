package pages

import (
	"context"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/security"
)

// Security is who tries to get in, who could, and what could be safer.
type Security interface {
	Look(ctx context.Context) (security.View, error)
	ClearReports(ctx context.Context) error
}

// SecurityPages is the page on security.
func SecurityPages(s Security) Section {
	p := securityPages{s}
	return Section{Label: "Security", Screens: []Screen{
		{Path: "/security", Title: "Security", View: "security", Live: true, Read: p.show, Acts: []Act{
			{Name: "clear-reports", Operation: "clear-csp-reports", Done: "The reports are forgotten.", Do: p.clear, Ask: &Question{
				Title: "Forget all reports?", Button: "Forget them",
				Detail: "Browsers report again what is still refused, so do this after mending a page, or when somebody has made reports up. This can't be undone.",
			}},
		}},
	}}
}

type securityPages struct{ s Security }

// securityPage is what the page shows.
type securityPage struct {
	Headline   []headline
	ToMend     []mending
	Well       Table
	Hours      Chart
	Days       Chart
	Outcomes   Table
	Refused    Table
	Limited    Table
	Ages       Table
	Roles      Table
	Admins     Table
	Webhooks   Chart
	Rejected   Table
	Audit      []Fact
	Reports    Table
	HasReports bool
}

// mending is what is to mend, with what the link to where is called.
type mending struct {
	security.Check
	Label string
}

var mendedAt = map[string]string{
	security.AtAdmins: "Administrators", security.AtAccounts: "Accounts", security.AtSites: "Sites", security.AtTasks: "Periodic tasks",
	security.AtChain: "Audit chain", security.AtCheckpoints: "Checkpoints", security.AtRejected: "Refused deliveries", security.AtMails: "Mails",
}

func (p securityPages) clear(r *http.Request) (Outcome, error) {
	return Outcome{}, p.s.ClearReports(r.Context())
}

func (p securityPages) show(r *http.Request) (any, error) {
	v, err := p.s.Look(r.Context())
	if err != nil {
		return nil, err
	}
	page := securityPage{
		Headline: securityHeadline(v),
		Hours:    signInChart("Sign-ins per hour, UTC", "15:04", v.State.Hours, 24), Days: signInChart("Sign-ins per day, UTC", "2 Jan", v.State.Days, 30),
		Outcomes: outcomesTable(v.State), Refused: refusedTable(v.State.Refused), Limited: limitedTable(v.State),
		Ages: agesTable(v.Census), Roles: rolesTable(v.Census.Roles), Admins: adminsTable(v.Census.Unprotected),
		Webhooks: refusedChart(v.State), Rejected: rejectedTable(v.State.Webhooks),
		Audit: auditFacts(v.Audit), Reports: reportsTable(v.State.Reports), HasReports: len(v.State.Reports) > 0,
	}
	page.Well = Table{Caption: "What is well", Columns: []Column{{Label: "What"}, {Label: "Found", Wide: true}}}
	for _, c := range v.Checks {
		if c.OK {
			page.Well.Rows = append(page.Well.Rows, Row{Cells: []any{c.Name, c.Sentence}})
			continue
		}
		page.ToMend = append(page.ToMend, mending{c, mendedAt[c.Href]})
	}
	return page, nil
}

// outcome is a way in which a try to sign in ends, in words.
type outcome struct {
	account.Outcome
	label, meaning string
	series         int // of the chart
}

// The series of the charts.
const (
	asWell = iota
	asRefused
	asThrottled
	asNone
)

var outcomes = []outcome{
	{account.SignedInWell, "Signed in", "A session was opened.", asWell},
	{account.PasswordWrong, "Wrong password", "Somebody guesses, or forgot, the password of an account that exists.", asRefused},
	{account.AccountUnknown, "Unknown account", "Nobody has that address. Many of these are a list of addresses from elsewhere that is tried.", asRefused},
	{account.CodeWrong, "Wrong second factor", "The password was right. Many for one account: its password is known to somebody.", asRefused},
	{account.AccountInactive, "Deactivated account", "The password was right, and the account is deactivated.", asRefused},
	{account.Throttled, "Throttled", "Refused unread, because of too many failures before.", asThrottled},
	{account.TooBusy, "Too busy", "Refused unread, because too many were signing in at once.", asThrottled},
	{account.RefreshReused, "Refresh token used twice", "Its session was ended: a token was stolen, or a client keeps old ones.", asNone},
}

func sumOf(c security.SignIns, series int) int64 {
	var n int64
	for _, o := range outcomes {
		if o.series == series {
			n += c.Sum(string(o.Outcome))
		}
	}
	return n
}

func securityHeadline(v security.View) []headline {
	var accounts, protected int64
	for _, r := range v.Census.Roles {
		accounts, protected = accounts+r.Accounts, protected+r.Protected
	}
	toMend := 0
	for _, c := range v.Checks {
		if !c.OK {
			toMend++
		}
	}
	h := v.State.Hours
	return []headline{
		{Label: "To mend", Value: strconv.Itoa(toMend)}, {Label: "Signed in, 24 h", Value: grouped(sumOf(h, asWell))},
		{Label: "Refused, 24 h", Value: grouped(sumOf(h, asRefused))}, {Label: "Throttled, 24 h", Value: grouped(sumOf(h, asThrottled))},
		{Label: "At a limit now", Value: grouped(v.State.LimitedTotal)},
		{Label: "With a second factor", Value: percent(protected, accounts)},
	}
}

// percent is part of whole in percent.
func percent(part, whole int64) string {
	if whole == 0 {
		return "-"
	}
	return strconv.FormatInt(100*part/whole, 10) + " %"
}

func signInChart(title, format string, c security.SignIns, steps int) Chart {
	chart := Chart{Title: title, Series: []Series{{Label: "Signed in", Tone: "main"}, {Label: "Refused", Tone: "bad"}, {Label: "Throttled", Tone: "quiet"}}}
	for i := range chart.Series {
		chart.Series[i].Values = make([]float64, steps)
	}
	for i := range steps {
		chart.At = append(chart.At, c.Since.Add(time.Duration(i)*c.Step).Format(format))
	}
	for _, o := range outcomes {
		if o.series == asNone {
			continue
		}
		for i, n := range c.Counts[string(o.Outcome)] {
			chart.Series[o.series].Values[i] += float64(n)
		}
	}
	return barChart(chart)
}

func outcomesTable(s security.State) Table {
	t := Table{
		Caption: "How sign-ins ended", Empty: Empty{Title: "Nobody has tried to sign in", Detail: "Each try is counted within a minute, and kept for 30 days."},
		Columns: []Column{{Label: "Outcome"}, {Label: "24 hours", Number: true}, {Label: "30 days", Number: true}, {Label: "What it means", Wide: true}},
	}
	for _, o := range outcomes {
		if all := s.Days.Sum(string(o.Outcome)); all > 0 {
			t.Rows = append(t.Rows, Row{Cells: []any{o.label, s.Hours.Sum(string(o.Outcome)), all, o.meaning}})
		}
	}
	return t
}

func refusedTable(list []security.RefusedSignIn) Table {
	t := Table{
		Caption: "Accounts whose sign-ins were refused in the last 24 hours", Empty: Empty{Title: "No account's sign-in was refused of late"},
		Columns: []Column{{Label: "Account"}, {Label: "From"}, {Label: "Why"}, {Label: "Times", Number: true}, {Label: "Latest"}},
	}
	why := map[string]string{"password": "wrong password", "second_factor": "wrong second factor", "throttled": "throttled"}
	for _, f := range list {
		reason := f.Reason
		if why[reason] != "" {
			reason = why[reason]
		}
		t.Rows = append(t.Rows, Row{Cells: []any{accountLink(f.UserID, f.Email), Code(f.Address), reason, f.Count, f.Latest}})
	}
	return t
}

func accountLink(id int64, email string) any {
	if email == "" {
		return "No. " + strconv.FormatInt(id, 10) + ", deleted"
	}
	return Link{Text: email, Href: userPath(id)}
}

// limitNames say what each limit is of, in words.
var limitNames = map[string]string{
	"sign_in.account": "Failed sign-ins to an account", "sign_in.home": "Failed sign-ins from where the account is at home", "sign_in.address": "Failed sign-ins from an address",
	"second_factor": "Wrong second factors", "reauthentication": "Wrong passwords of somebody signed in", "signed_in": "Sign-ins to one account from one address",
	"reauthenticated": "Passwords asked for again", "refresh.session": "Refreshes of a session", "refresh.account": "Refreshes of an account",
	"register.address": "Registrations from an address", "forgot.address": "Forgotten passwords from an address", "forgot.account": "Mails to reset a password",
	"verification.address": "Asked for confirmations from an address", "verification.account": "Mails to confirm an address", "oauth_start.address": "Sign-ins begun at a provider",
	"email_change.account": "Changes of an e-mail address", "email_change.address": "Changes of e-mail addresses from an address", "email_change.recipient": "Mails to a new address",
}

func limitedTable(s security.State) Table {
	t := Table{
		Caption: "Who is at a limit now", Empty: Empty{Title: "Nobody is at a limit", Detail: "Accounts and addresses with too many failures, or requests, are listed here while they have to wait."},
		Columns: []Column{{Label: "Limit", Wide: true}, {Label: "Who"}, {Label: "Count", Number: true}, {Label: "Until"}},
	}
	known := map[string]security.RefusedSignIn{}
	for _, f := range s.Refused {
		known[account.LimitSubject(f.Email)] = f
	}
	for _, l := range s.Limited {
		name, wide := strings.CutSuffix(l.Limit, ".wide")
		label := limitNames[name]
		if label == "" {
			label = name
		}
		if wide {
			label += " (IPv6 /48)"
		}
		t.Rows = append(t.Rows, Row{Cells: []any{label, limitSubject(l.Subject, known), l.Count, l.Until}})
	}
	if s.LimitedTotal > int64(len(s.Limited)) {
		t.Total = &s.LimitedTotal
	}
	return t
}

var (
	digestSubject = regexp.MustCompile(`^([0-9a-f]{32})(?:@(.+))?$`)
	numberSubject = regexp.MustCompile(`^[1-9][0-9]{0,17}$`)
)

// limitSubject says who a limit's subject is. A digest is of an e-mail address, which is
// known where the audit log has an account's refused sign-ins.
func limitSubject(subject string, known map[string]security.RefusedSignIn) any {
	if numberSubject.MatchString(subject) {
		return Link{Text: "Account no. " + subject, Href: DeskPath + "/users/" + subject}
	}
	m := digestSubject.FindStringSubmatch(subject)
	if m == nil {
		return Code(subject)
	}
	from := ""
	if m[2] != "" {
		from = "from " + m[2]
	}
	if f, ok := known[m[1]]; ok && f.Email != "" {
		return Link{Text: f.Email, Href: userPath(f.UserID), Detail: from}
	}
	return []any{"An e-mail address", Code(m[1][:8] + "\u2026"), from}
}

func agesTable(c security.Census) Table {
	t := Table{
		Caption: "What lets somebody in, by its age", Empty: Empty{Title: "Nothing lets anybody in"},
		Columns: []Column{{Label: "Made within"}, {Label: "Sessions", Number: true}, {Label: "At these pages", Number: true}, {Label: "API tokens", Number: true}, {Label: "Sites' keys", Number: true}},
	}
	labels := []string{"A day", "A week", "30 days", "90 days", "A year", "Longer ago"}
	for i, label := range labels {
		t.Rows = append(t.Rows, Row{Cells: []any{label, c.Ages[security.Sessions][i], c.Ages[security.PageSessions][i], c.Ages[security.APITokens][i], c.Ages[security.SiteKeys][i]}})
	}
	return t
}

func rolesTable(list []security.RoleCount) Table {
	t := Table{
		Caption: "Second factors by role", Empty: Empty{Title: "No active accounts"},
		Columns: []Column{{Label: "Role"}, {Label: "Active accounts", Number: true}, {Label: "With a second factor", Number: true}, {Label: "Share", Number: true}},
	}
	for _, r := range list {
		t.Rows = append(t.Rows, Row{Cells: []any{Link{Text: r.Role, Href: DeskPath + "/users?active=yes&" + query("role", r.Role)}, r.Accounts, r.Protected, percent(r.Protected, r.Accounts)}})
	}
	return t
}

func adminsTable(list []security.Person) Table {
	t := Table{Caption: "Administrators without a second factor", Columns: []Column{{Label: "Administrators without a second factor"}}}
	for _, p := range list {
		t.Rows = append(t.Rows, Row{Cells: []any{Link{Text: p.Email, Href: userPath(p.ID)}}})
	}
	return t
}

func refusedChart(s security.State) Chart {
	c := Chart{Title: "Refused webhook deliveries per hour, UTC", Series: []Series{{Label: "Refused", Tone: "bad"}}}
	for i, n := range s.WebhookHours {
		c.At = append(c.At, s.Hours.Since.Add(time.Duration(i)*time.Hour).Format("15:04"))
		c.Series[0].Values = append(c.Series[0].Values, float64(n))
	}
	return barChart(c)
}

func rejectedTable(list []security.RefusedWebhooks) Table {
	t := Table{
		Caption: "Refused webhook deliveries by provider and reason", Empty: Empty{Title: "No delivery was refused"},
		Columns: []Column{{Label: "Provider"}, {Label: "Reason"}, {Label: "24 hours", Number: true}, {Label: "Kept", Number: true}, {Label: "Latest"}},
	}
	for _, w := range list {
		provider := any("Unknown providers")
		if w.Provider != "" {
			provider = Link{Text: w.Provider, Href: DeskPath + "/webhooks/rejected?" + query("provider", w.Provider)}
		}
		t.Rows = append(t.Rows, Row{Cells: []any{provider, strings.ReplaceAll(w.Reason, "_", " "), w.OfLate, w.Kept, w.Latest}})
	}
	return t
}

func auditFacts(a security.AuditState) []Fact {
	list := []Fact{{"Entries", a.Entries}, {"Under a signed checkpoint", a.CheckpointSize}}
	if a.CheckpointSize > 0 {
		list = append(list, Fact{"Latest checkpoint", a.CheckpointAt})
	}
	for _, v := range a.Verified {
		state := Badge{"holds", "good"}
		if v.FirstBad != nil {
			state = Badge{"broken: " + v.FirstBad.Reason, "bad"}
		}
		label := "Newest entries"
		if v.Kind == "whole" {
			label = "Whole log"
		}
		list = append(list, Fact{label, []any{state, v.At}})
	}
	return list
}

func reportsTable(list []security.Report) Table {
	t := Table{
		Caption: "What browsers refused on our pages",
		Empty:   Empty{Title: "No reports", Detail: "Browsers report what a page's Content Security Policy forbade: a script that somebody slipped in, or a mistake of ours. Nothing here is as it should be."},
		Columns: []Column{{Label: "Rule"}, {Label: "Refused", Wide: true}, {Label: "Page"}, {Label: "Times", Number: true}, {Label: "First"}, {Label: "Latest"}},
	}
	for _, v := range list {
		blocked := any(Code(v.Blocked))
		if v.Blocked == security.ByExtension {
			blocked = Badge{v.Blocked, "quiet"}
		}
		t.Rows = append(t.Rows, Row{Cells: []any{v.Directive, blocked, Code(v.Page), v.Count, v.FirstSeen, v.LastSeen}})
	}
	return t
}
