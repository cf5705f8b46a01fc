package api

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats/drop"
	"github.com/waypost/waypost/internal/stats/hit"
)

// Collector counts a hit and returns once that is durable, or nil as well for a
// hit that must not be counted. Errors: faults of kind Invalid and Unavailable.
type Collector interface {
	Collect(ctx context.Context, s site.Site, h hit.Hit) error
	// CountRefused counts a hit that was one of too many, or that could not be read, by its
	// site's public key.
	CountRefused(siteKey string, reason drop.Reason)
}

// SiteFinder returns the site of a public key, or a fault of kind Unauthenticated.
type SiteFinder interface {
	BySiteKey(ctx context.Context, key string) (site.Site, error)
}

// Collection is how hits and events are taken in.
type Collection struct {
	Sites     SiteFinder
	Collector Collector
	Batches   BatchCollector
	// SiteRate and AddressRate are how many hits per minute one site's pages may
	// report, and how many may come from one address; 0 is without limit.
	SiteRate, AddressRate int
	// HonorDoNotTrack counts nothing for DNT and GPC.
	HonorDoNotTrack bool
}

// maxCollect is the size of a hit, in bytes.
const maxCollect = 8 << 10

var errCollectType = fault.New(fault.UnsupportedMedia, fault.CodeUnsupportedMedia, "Send the body as text/plain or application/json.")

// mountCollect adds the one path that pages of other origins call. It takes
// text/plain, which a browser sends across origins without asking first, and
// answers those that ask.
func mountCollect(r chi.Router, c Collection) {
	const path = "/api/collect"
	r.With(describeCollect().Middleware).Method(http.MethodPost, path, anyOrigin(collect(c, newLimiter("site", c.SiteRate), newLimiter("address", c.AddressRate))))
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
func collect(c Collection, perSite, perAddress *limiter) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := perAddress.take(w, r, addressKey(identity.FromContext(r.Context()).Address))
		if err == nil {
			err = collectOne(w, r, c, perSite)
		} else if in, unread := readHit(w, r); unread == nil {
			c.Collector.CountRefused(in.siteKey, drop.RateLimited)
		}
		if err != nil {
			httpedge.WriteError(w, r, err)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusAccepted)
	})
}

func collectOne(w http.ResponseWriter, r *http.Request, c Collection, perSite *limiter) error {
	in, err := readHit(w, r)
	if err != nil {
		if in.siteKey != "" {
			c.Collector.CountRefused(in.siteKey, drop.Invalid)
		}
		return err
	}
	found, err := c.Sites.BySiteKey(r.Context(), in.siteKey)
	if err != nil {
		return err
	}
	if err := perSite.take(w, r, found.ID.String()); err != nil {
		c.Collector.CountRefused(in.siteKey, drop.RateLimited)
		return err
	}
	h := in.hit
	h.Address, h.UserAgent = identity.FromContext(r.Context()).Address, r.UserAgent()
	h.DoNotTrack = c.HonorDoNotTrack && (r.Header.Get("DNT") == "1" || r.Header.Get("Sec-GPC") == "1")
	// From here on the address is the visitor's own business.
	ctx := identity.NewContext(r.Context(), identity.Site(found.ID.String()))
	return within("body", c.Collector.Collect(ctx, found, h))
}

func readHit(w http.ResponseWriter, r *http.Request) (hitBody, error) {
	body, err := readBody(w, r, maxCollect, errCollectType, "text/plain", "application/json")
	if err != nil {
		return hitBody{}, err
	}
	if err := checkJSON(body); err != nil {
		return hitBody{}, err
	}
	return parseHit(body)
}

// hitBody is the body of POST /api/collect.
type hitBody struct {
	siteKey string
	hit     hit.Hit
}

// parseHit reads a JSON object with the members site_key, url, referrer, name and
// props, and says what is wrong with each. With an error comes the site's key, if that is
// there.
func parseHit(body []byte) (hitBody, error) {
	var in hitBody
	details := map[string]string{}
	seen := make(map[string]bool, 5)
	err := eachMember(body, func(name string, value jsontext.Value) {
		field := "body." + name
		if seen[name] {
			details[field] = "Appears more than once."
			return
		}
		seen[name] = true
		ok := true
		switch name {
		case "site_key":
			in.siteKey, ok = textOf(value)
		case "url":
			in.hit.URL, ok = textOf(value)
		case "referrer":
			in.hit.Referrer, ok = textOf(value)
		case "name":
			in.hit.Name, ok = textOf(value)
		case "props":
			if value.Kind() != jsontext.KindBeginObject || in.hit.Props.UnmarshalJSON(value) != nil {
				details[field] = "Must be an object."
			}
		default:
			details["body"] = "Has a member other than site_key, url, referrer, name and props; names are case-sensitive."
		}
		if !ok {
			details[field] = "Must be a string."
		}
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
		return hitBody{siteKey: in.siteKey}, fault.Validation(details)
	}
	return in, nil
}
