package queue

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// secret is what no output may hold; plain is what every output must hold.
const (
	secret = "Xq7vT0pSecretZz91"
	plain  = "kept"
)

func TestSecretsNeverLeaveAJobsArguments(t *testing.T) {
	t.Parallel()
	names := rapid.SampledFrom([]string{"password", "newPassword", "PASSWORD_HASH", "token", "refreshToken", "access_token", "secret", "client-secret", "key", "apiKey", "site_key",
		"code", "verificationCode", "link", "resetLink", "authorization", "X-Authorization", "cookie", "totpSecret", "signature"})
	innocent := rapid.SampledFrom([]string{"id", "event_id", "email", "kind", "name", "monkey", "keyword", "linked", "url", "site", "day", ""})
	shaped := rapid.SampledFrom([]string{
		"wp_" + secret, "wprt_" + secret, "sent to wpml_" + secret + ".", "Bearer " + secret, "basic " + secret,
		"https://waypost.example/reset?token=" + secret, "https://example.com/?a=b&access_token=" + secret + "&c=d", "/x?code=" + secret + "#end",
		"https://example.com/#id_token=" + secret, "postgres://waypost:" + secret + "@db/waypost", "eyJhbGciOi." + secret + "." + secret, "password=" + secret, `{"secret": "` + secret + `"}`,
	})
	rapid.Check(t, func(t *rapid.T) {
		var value func(depth int) any
		value = func(depth int) any {
			switch rapid.IntRange(0, 5).Draw(t, "sort") {
			case 0:
				return map[string]any{names.Draw(t, "secret name"): rapid.SampledFrom([]any{secret, []any{secret}, map[string]any{"inner": secret}}).Draw(t, "value")}
			case 1:
				return shaped.Draw(t, "shape")
			case 2:
				if depth < 4 {
					return []any{value(depth + 1), value(depth + 1)}
				}
			case 3:
				if depth < 4 {
					return map[string]any{innocent.Draw(t, "name"): value(depth + 1), shaped.Draw(t, "a secret as a name"): 1}
				}
			}
			return plain
		}
		in, err := json.Marshal(map[string]any{"value": value(0), "sibling": plain})
		if err != nil {
			t.Fatal(err)
		}
		out := blankArgs(in)
		if !json.Valid(out) || len(out) > MaxArgs {
			t.Fatalf("%d bytes: %s", len(out), out)
		}
		if strings.Contains(string(out), secret) {
			t.Fatalf("%s became %s", in, out)
		}
		if !strings.Contains(string(out), `"sibling":"`+plain+`"`) {
			t.Fatalf("%s became %s", in, out)
		}
	})
}

func TestWhatIsNoSecretIsShownAsItIs(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		`{"id":"01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10"}`,
		`{"day":"2026-11-22","n":9007199254740993,"site":"01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10"}`,
		`{"a":[1,2.50,null,true,{"text":"<b>&amp;"}],"email":"ada@example.com","keyword":"x","monkey":"y"}`,
		`{}`,
	} {
		if diff := cmp.Diff(args, string(blankArgs([]byte(args)))); diff != "" {
			t.Error(diff)
		}
	}
	for _, text := range []string{
		"dial tcp 192.0.2.1:443: connect: connection refused", "status code: 500", "ERROR: duplicate key value violates unique constraint (SQLSTATE 23505)",
		"https://example.com/path?page=2", "the basic idea", "user ada@example.com",
	} {
		if got := blankText(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestAnErrorsTextCanBeStored(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 5000), func(b []byte) string { return string(b) })).Draw(t, "text")
		got := ErrorText(errors.New(raw))
		if strings.Contains(got, "\x00") || strings.ToValidUTF8(got, "") != got || len([]rune(got)) > MaxErrorText+len(blanked)*20 {
			t.Fatalf("%q became %q", raw, got)
		}
	})
}
