package api_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// Section 4, "Signature", cases 1 to 21.
func TestCases01To21Signatures(t *testing.T) {
	t.Parallel()
	c := newCases(t)
	digits, pdigits := mac(casesCodeHost, casesBody), mac(casesPayment, "1700000000.", casesBody)
	upper, good := strings.ToUpper, "t=1700000000,v1="+pdigits
	// signedAt signs the literal text of a timestamp, as a sender with a strange clock would.
	signedAt := func(literal string) http.Header {
		return pay("t=" + literal + ",v1=" + mac(casesPayment, literal, ".", casesBody))
	}
	list := []attack{
		{"01 upper case digits, code host", "codehost", casesBody, hub("sha256=" + upper(digits)), 200},
		{"01 upper case digits, payment", "payment", casesBody, pay("t=1700000000,v1=" + upper(pdigits)), 200},
		{"02 odd length, code host", "codehost", casesBody, hub("sha256=" + digits + "a"), 401},
		{"02 odd length, payment", "payment", casesBody, pay(good + "a"), 401},
		{"03 63 digits", "codehost", casesBody, hub("sha256=" + digits[1:]), 401},
		{"03 63 digits, generic", "acme", casesBody, acme(digits[1:]), 401},
		{"03 65 digits", "codehost", casesBody, hub("sha256=" + digits + "0"), 401},
		{"03 128 digits", "codehost", casesBody, hub("sha256=" + digits + digits), 401},
		{"04 not hexadecimal", "codehost", casesBody, hub("sha256=" + "g" + digits[1:]), 401},
		{"04 not ASCII", "codehost", casesBody, hub("sha256=" + "é" + digits[2:]), 401},
		{"05 interior spaces", "codehost", casesBody, hub("sha256= " + digits), 401},
		{"06 a space behind the comma", "payment", casesBody, pay("t=1700000000, v1=" + pdigits), 401},
		{"07 sent twice, good and bad", "payment", casesBody, pay(good, "t=1,v1=00"), 401},
		{"07 sent twice, bad and good", "payment", casesBody, pay("t=1,v1=00", good), 401},
		{"07 sent twice, code host", "codehost", casesBody, hub("sha256="+digits, "sha256=00"), 401},
		{"07 sent twice, generic", "acme", casesBody, acme("00", digits), 401},
		{"08 a list of two", "codehost", casesBody, hub("sha256=bad,sha256=" + digits), 401},
		{"09 garbage before", "codehost", casesBody, hub("garbage sha256=" + digits), 401},
		{"10 SHA256=", "codehost", casesBody, hub("SHA256=" + digits), 401},
		{"10 sha1=", "codehost", casesBody, hub("sha1=" + digits[:40]), 401},
		{"10 no prefix", "codehost", casesBody, hub(digits), 401},
		{"10 a prefix where there is none", "acme", casesBody, acme("sha256=" + digits), 401},
		{"11 two t, good last", "payment", casesBody, pay("t=1," + good), 401},
		{"11 two t, good first", "payment", casesBody, pay(good + ",t=1"), 401},
		{"11 two equal t", "payment", casesBody, pay("t=1700000000," + good), 401},
		{"12 no t", "payment", casesBody, pay("v1=" + pdigits), 401},
		{"16 10,000 v1", "payment", casesBody, pay("t=1700000000" + strings.Repeat(",v1=00", 10_000)), 401},
		{"16 the 16th v1", "payment", casesBody, pay("t=1700000000" + strings.Repeat(",v1=00", 15) + ",v1=" + pdigits), 200},
		{"16 the 17th v1", "payment", casesBody, pay("t=1700000000" + strings.Repeat(",v1=00", 16) + ",v1=" + pdigits), 401},
		{"17 an empty v1", "payment", casesBody, pay("t=1700000000,v1="), 401},
		{"17 an empty v1 beside a good one", "payment", casesBody, pay(good + ",v1="), 200},
		{"20 a signature for another provider", "acme", casesBody, acme(pdigits), 401},
		{"20 a header for another provider", "codehost", casesBody, pay(good), 401},
		{"21 not registered", "nobody", casesBody, pay(good), 404},
	}
	for _, literal := range []string{"-1", "0", "+1700000000", "01700000000", "1700000000.5", "1e9", "NaN", "9223372036854775808", "1700000000000", " 1700000000", "0x6553f100", ""} {
		list = append(list, attack{"13 t=" + literal, "payment", casesBody, signedAt(literal), 401})
	}
	for _, literal := range []string{"9223372036854775807", "-9223372036854775808", "-9223372036854775807", "99999999999999999999999"} {
		list = append(list, attack{"14 t=" + literal, "payment", casesBody, signedAt(literal), 401})
	}
	for offset, status := range map[int]int{-301: 401, -300: 200, 300: 200, 301: 401} {
		list = append(list, attack{fmt.Sprintf("15 now%+d", offset), "payment", casesBody, signedAt(strconv.Itoa(casesNow + offset)), status})
	}
	c.try(t, list)

	for _, value := range []string{"", " \t", casesPayment + "\n", "changed"} {
		c.setenv("PAYMENT_WEBHOOK_SECRET", value)
		c.try(t, []attack{{"18 secret " + strconv.Quote(value), "payment", casesBody, pay(good), 401}})
	}
	c.setenv("PAYMENT_WEBHOOK_SECRET", casesPayment)
	c.try(t, []attack{{"18 secret back again", "payment", casesBody, pay(good), 200}})

	_, _, members := c.post(t, "payment", casesBody, pay("t=1700000000,v1=00"))
	for _, text := range []string{fmt.Sprint(members), c.log.String()} {
		for _, secret := range []string{pdigits, digits, casesPayment, casesCodeHost} {
			if strings.Contains(text, secret) {
				t.Errorf("19 an answer or the log shows %s: %s", secret, text)
			}
		}
	}
}

// Cases 4 and 5 as no client library would send them.
func TestCases04And05SignaturesOnTheWire(t *testing.T) {
	t.Parallel()
	c := newCases(t)
	n, good := len(casesBody), goodCodeHost()
	c.tryOnTheWire(t, map[string]wireCase{
		"04 NUL":           {request("/webhooks/codehost", "sha256=\x00"+good[len("sha256=")+1:], n, casesBody), "400"},
		"05 spaces around": {request("/webhooks/codehost", "  "+good+" \t", n, casesBody), "200"},
	})
}
