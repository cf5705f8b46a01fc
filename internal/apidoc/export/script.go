package export

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// prepareScript computes what a request needs before it is sent; nil when that is
// nothing.
func (r *request) prepareScript(d dialect) []string {
	return slices.Concat(r.totpScript(d), r.signScript(d))
}

// totpScript computes a one-time password as RFC 6238 and RFC 4226, section 5.3,
// say, and puts it into a variable.
func (r *request) totpScript(d dialect) []string {
	t := r.totp
	if t == nil {
		return nil
	}
	missing := fmt.Sprintf(`if (!base32) throw new Error(%s);`, literal("Set the variable "+t.Secret+" first."))
	if r.optional {
		// Base32 of one byte: the request is sent, and refused.
		missing = `base32 = base32 || "AA";`
	}
	return lines(
		`const { HmacSHA1, enc: { Hex } } = require("crypto-js");`,
		fmt.Sprintf(`let base32 = %s;`, d.valueOf(t.Secret)),
		`if (base32?.startsWith("{{")) base32 = "";`,
		missing,
		`const bits = [...base32].map((c) => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".indexOf(c).toString(2).padStart(5, "0")).join("");`,
		`const key = bits.match(/.{8}/g).map((b) => parseInt(b, 2).toString(16).padStart(2, "0")).join("");`,
		`const step = Math.floor(Date.now() / 30000).toString(16).padStart(16, "0");`,
		`const mac = HmacSHA1(Hex.parse(step), Hex.parse(key)).toString(Hex);`,
		`const offset = 2 * parseInt(mac.slice(-1), 16);`,
		`const number = parseInt(mac.slice(offset, offset + 8), 16) & 0x7fffffff;`,
		fmt.Sprintf(`%s.collectionVariables.set(%s, String(number %% 1000000).padStart(6, "0"));`, d.object, literal(t.Code)),
	)
}

// signScript fixes the body, signs it and sets the header; nil for a request
// that is not signed.
func (r *request) signScript(d dialect) []string {
	s := r.signature
	if s == nil {
		return nil
	}
	script := []string{
		fmt.Sprintf(`const { %s, enc } = require("crypto-js");`, s.function()),
		fmt.Sprintf(`const secret = %s;`, d.valueOf(s.Secret)),
		fmt.Sprintf(`if (!secret || secret.startsWith("{{")) throw new Error(%s);`, literal("Set the variable "+s.Secret+" first.")),
		`// The signature is over the very bytes that are sent, so they are made first.`,
		d.fixBody,
		`const timestamp = Math.floor(Date.now() / 1000);`,
	}
	if s.uses("{id}") {
		script = append(script, "const id = `evt_${Date.now()}_${Math.floor(Math.random() * 1e9)}`;")
	}
	key, encoding := "secret", "Hex"
	if s.Base64 {
		key, encoding = `enc.Base64.parse(secret.replace(/^whsec_/, ""))`, "Base64"
	}
	if s.Base64Sum {
		encoding = "Base64"
	}
	if s.Message != "" {
		script = append(script, fmt.Sprintf(`const hmac = %s(%s, %s).toString(enc.%s);`, s.function(), templateLiteral(s.Message), key, encoding))
	}
	set := func(header, value string) {
		script = append(script, fmt.Sprintf(`%s({ key: %s, value: %s });`, d.setHeader, literal(header), templateLiteral(value)))
	}
	set(s.Header, s.Value)
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		set(name, s.Headers[name])
	}
	return lines(script...)
}

// valueOf is the expression for the value of a variable.
func (d dialect) valueOf(name string) string { return fmt.Sprintf(d.variable, name) }

// function is what crypto-js calls the HMAC.
func (s Signature) function() string {
	switch s.Digest {
	case "sha1":
		return "HmacSHA1"
	case "sha512":
		return "HmacSHA512"
	}
	return "HmacSHA256"
}

// sets says whether the script sets a header; a nil Signature sets none.
func (s *Signature) sets(header string) bool {
	if s == nil {
		return false
	}
	names := append(slices.Collect(maps.Keys(s.Headers)), s.Header)
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, header) })
}

// uses says whether a placeholder is anywhere in it.
func (s Signature) uses(placeholder string) bool {
	texts := append(slices.Collect(maps.Values(s.Headers)), s.Message, s.Value)
	return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(t, placeholder) })
}

// testScript checks the status and stores what later requests need.
func (r *request) testScript(d dialect) []string {
	var script []string
	if len(r.statuses) == 0 {
		script = append(script, fmt.Sprintf(`%[1]s.test("succeeds", () => %[1]s.expect(%[1]s.response.code).to.be.below(400));`, d.object))
	} else {
		codes := make([]string, len(r.statuses))
		for i, s := range r.statuses {
			codes[i] = strconv.Itoa(s)
		}
		script = append(script, fmt.Sprintf(`%[1]s.test(%[2]s, () => %[1]s.expect(%[1]s.response.code).to.be.oneOf([%[3]s]));`,
			d.object, literal("answers "+strings.Join(codes, " or ")), strings.Join(codes, ", ")))
	}
	for _, name := range slices.Sorted(maps.Keys(r.capture)) {
		pointer := r.capture[name]
		script = append(script,
			fmt.Sprintf(`%s.test(%s, () => {`, d.object, literal("gives "+name)),
			fmt.Sprintf(`  const value = %s.response.json()%s;`, d.object, access(pointer)),
			r.absent(d, pointer),
			fmt.Sprintf(`  %s.collectionVariables.set(%s, String(value));`, d.object, literal(name)),
			`});`)
	}
	return script
}

// absent is what a script does when an answer has no such member.
func (r *request) absent(d dialect, pointer string) string {
	if r.optional {
		return `  if (value === undefined || value === null) return;`
	}
	return fmt.Sprintf(`  %s.expect(value, %s).to.not.be.oneOf([undefined, null, ""]);`, d.object, literal(pointer))
}

func lines(statements ...string) []string {
	return strings.Split(strings.Join(statements, "\n"), "\n")
}

// literal is a text as JavaScript; JSON strings are (ECMAScript 2019).
func literal(text string) string {
	raw, err := indent(text)
	if err != nil {
		return `""`
	}
	return strings.TrimSpace(string(raw))
}

var (
	token        = regexp.MustCompile(`\{(body|timestamp|hmac|id|secret)\}`)
	templateMeta = strings.NewReplacer("\\", `\\`, "`", "\\`", "${", "\\${")
)

// templateLiteral turns "{timestamp}.{body}" into `${timestamp}.${body}`.
func templateLiteral(text string) string {
	return "`" + token.ReplaceAllString(templateMeta.Replace(text), "$${$1}") + "`"
}

var identifier = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`)

// access turns a JSON Pointer into a chain of JavaScript member accesses that
// gives undefined where it leads nowhere.
func access(pointer string) string {
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	var out strings.Builder
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		part = unescape.Replace(part)
		if identifier.MatchString(part) {
			out.WriteString("?." + part)
		} else if _, err := strconv.Atoi(part); err == nil {
			out.WriteString("?.[" + part + "]")
		} else {
			out.WriteString("?.[" + literal(part) + "]")
		}
	}
	return out.String()
}
