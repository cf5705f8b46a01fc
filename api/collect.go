package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/waypost/waypost/internal/apidoc/model"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats"
)

// Collector counts a hit and returns once that is durable, or nil as well for a
// hit that must not be counted. Errors: faults of kind Invalid and Unavailable.
type Collector interface {
	Collect(ctx context.Context, s site.Site, h stats.Hit) error
}

// SiteFinder returns the site of a public key, or a fault of kind Unauthenticated.
type SiteFinder interface {
	BySiteKey(ctx context.Context, key string) (site.Site, error)
}

// maxCollect is the size of a hit, in bytes.
const maxCollect = 8 << 10

var errCollectType = fault.New(fault.UnsupportedMedia, fault.CodeUnsupportedMedia, "Send the body as text/plain or application/json.")

// mountCollect adds the one path that pages of other origins call. It takes
// text/plain, which a browser sends across origins without asking first, and
// answers those that ask.
func mountCollect(r chi.Router, o Options) {
	const path = "/api/collect"
	r.With(describeCollect().Middleware).Method(http.MethodPost, path, anyOrigin(collect(o, newLimiter(o.Limits.PerSite), newLimiter(o.Limits.PerAddress))))
	r.Method(http.MethodOptions, path, anyOrigin(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Methods", http.MethodPost)
		h.Set("Access-Control-Allow-Headers", "Content-Type")
		h.Set("Access-Control-Max-Age", "86400")
		w.WriteHeader(http.StatusNoContent)
	})))
}

// anyOrigin lets scripts of every origin read the answers, errors included.
// Nothing here depends on cookies, so that gives nothing away.
func anyOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		next.ServeHTTP(w, r)
	})
}

// collect answers POST /api/collect: 202 without a body once the hit is durable.
func collect(o Options, perSite, perAddress *limiter) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := perAddress.take(w, r, addressKey(identity.FromContext(r.Context()).Address))
		if err == nil {
			err = collectOne(w, r, o, perSite)
		}
		if err != nil {
			httpedge.WriteError(w, r, err)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusAccepted)
	})
}

func collectOne(w http.ResponseWriter, r *http.Request, o Options, perSite *limiter) error {
	body, err := readBody(w, r, maxCollect, errCollectType, "text/plain", "application/json")
	if err != nil {
		return err
	}
	if err := checkJSON(body); err != nil {
		return err
	}
	in, err := parseHit(body)
	if err != nil {
		return err
	}
	found, err := o.Sites.BySiteKey(r.Context(), in.siteKey)
	if err != nil {
		return err
	}
	if err := perSite.take(w, r, found.ID.String()); err != nil {
		return err
	}
	h := in.hit
	h.Address, h.UserAgent = identity.FromContext(r.Context()).Address, r.UserAgent()
	h.DoNotTrack = o.HonorDoNotTrack && (r.Header.Get("DNT") == "1" || r.Header.Get("Sec-GPC") == "1")
	// From here on the address is the visitor's own business.
	ctx := identity.NewContext(r.Context(), identity.Site(found.ID.String()))
	return within("body", o.Collector.Collect(ctx, found, h))
}

// hitBody is the body of POST /api/collect.
type hitBody struct {
	siteKey string
	hit     stats.Hit
}

// parseHit reads a JSON object with the members site_key, url, referrer, name and
// props, and says what is wrong with each.
func parseHit(body []byte) (hitBody, error) {
	var in hitBody
	members := map[string]*string{"site_key": &in.siteKey, "url": &in.hit.URL, "referrer": &in.hit.Referrer, "name": &in.hit.Name}
	details := map[string]string{}
	seen := map[string]bool{}
	err := eachMember(body, func(name string, value json.RawMessage) {
		field := "body." + name
		text, known := members[name]
		switch {
		case seen[name]:
			details[field] = "Appears more than once."
		case known && (value[0] != '"' || json.Unmarshal(value, text) != nil):
			details[field] = "Must be a string."
		case name == "props" && (value[0] != '{' || json.Unmarshal(value, &in.hit.Props) != nil):
			details[field] = "Must be an object whose values are strings, numbers or booleans."
		case !known && name != "props":
			details["body"] = "Has a member other than site_key, url, referrer, name and props; names are case-sensitive."
		}
		seen[name] = true
	})
	if err != nil {
		details["body"] = "Must be a JSON object whose strings hold neither U+0000 nor lone surrogates."
	}
	for _, name := range []string{"site_key", "url"} {
		if !seen[name] {
			details["body."+name] = "Is required."
		}
	}
	if len(details) > 0 {
		return hitBody{}, fault.Validation(details)
	}
	return in, nil
}

// eachMember calls f for the members of a JSON object in their order.
func eachMember(body []byte, f func(name string, value json.RawMessage)) error {
	// What it decodes into is of no interest; it refuses text that no reader keeps.
	var object map[string]json.RawMessage
	if err := model.Format().Unmarshal(body, &object); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return errNotJSON
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		f(name.(string), value)
	}
	return nil
}
