package api

import (
	"maps"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/apidoc"
	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/groupcommit"
	"github.com/waypost/waypost/internal/site"
)

// pageHit is the body of POST /api/collect as it is described; parseHit reads it.
type pageHit struct {
	SiteKey  string   `json:"site_key" doc:"The site's public key." example:"wps_2b7e151628aed2a6"`
	URL      string   `json:"url" pattern:"^[^/?#\\x00]+://[^/?#\\x00][^\\x00]*$" doc:"The page's absolute URL." example:"https://example.com/pricing?utm_source=news"`
	Referrer string   `json:"referrer,omitempty" doc:"Where the visitor came from. A text that is not an absolute URL counts as no referrer." example:"https://search.example/"`
	Name     string   `json:"name,omitempty" maxLength:"100" pattern:"^[^\\x00]*$" doc:"A custom event's name. Without a name, or with the name pageview, the hit is a pageview." example:"signup"`
	Props    hitProps `json:"props,omitempty" doc:"Properties of a custom event. One that is null, an array or an object is left out." example:"{\"plan\":\"team\",\"seats\":5}"`
}

// hitProps are described by a schema of their own: scalars of any kind.
type hitProps map[string]any

// Schema implements huma.SchemaProvider.
func (hitProps) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Type:          huma.TypeObject,
		MaxProperties: new(16),
		AdditionalProperties: &huma.Schema{AnyOf: []*huma.Schema{
			{Type: huma.TypeString, MaxLength: new(1000), Pattern: `^[^\x00]*$`}, {Type: huma.TypeNumber}, {Type: huma.TypeBoolean},
		}},
		Extensions: map[string]any{"propertyNames": map[string]any{"minLength": 1, "maxLength": 100, "pattern": `^[^\x00]*$`}},
	}
}

// describeCollect is the description of POST /api/collect.
func describeCollect() *apidoc.Operation {
	o := apidoc.Describe().
		ID("collect-hit").
		Summary("Count a page view or an event").
		Description("The answer is 202 once the hit is durable. Hits from bots, from visitors who opted out of tracking and from hosts that are not the site's are accepted but not counted. "+
			"Pages of any origin may call this; with text/plain, browsers need no preflight request. At most 8 KiB.\n\n"+
			"Access: public; the site's public key is in the body.").
		Security().
		Body(pageHit{}, "application/json", "text/plain").
		Response(http.StatusAccepted, nil, "The hit was accepted.").
		ResponseHeader(http.StatusAccepted, requestIDHeader, headerReference(requestIDHeader), "").
		Extension(export.Extension, export.Hints{Variant: export.Variant{Body: map[string]any{"site_key": "{{siteKey}}"}}})
	failures := []error{
		errNotJSON, site.ErrSiteKey, errBodySlow, errBodySize, errCollectType,
		fault.Validation(map[string]string{"body.url": "An absolute URL such as https://example.com/page."}),
		errTooMany, groupcommit.ErrFull, errSlow, errUnexpected,
	}
	withFailures(o, failures...)
	for _, status := range append(slices.Collect(maps.Keys(answersOf("", failures))), http.StatusAccepted) {
		o.ResponseHeader(status, rateHeader, headerReference(rateHeader), "").ResponseHeader(status, ratePolicyHeader, headerReference(ratePolicyHeader), "")
	}
	return o
}
