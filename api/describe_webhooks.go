package api

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-chi/chi/v5"

	"github.com/waypost/waypost/internal/apidoc"
	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/webhook"
	"github.com/waypost/waypost/internal/webhook/signature"
)

const (
	deliveryPath = "/webhooks/{provider}"
	tagWebhooks  = "Webhooks"
)

// delivery is what a provider sends, as its sender sees it.
type delivery struct {
	webhook.Registration
	example webhook.Example
	// scheme names the security scheme, secret the variable of exports with the key;
	// both are empty where nobody says how the provider signs.
	scheme, secret string
	recipe         signature.Recipe
	variant        export.Variant
}

// deliveries describes what the providers send.
func deliveries(providers []webhook.Registration) ([]delivery, error) {
	list := make([]delivery, len(providers))
	for i, p := range providers {
		d := delivery{Registration: p}
		d.About.Summary = cmp.Or(p.About.Summary, "An event of "+p.Name)
		var err error
		if d.example, err = p.Example(); err != nil {
			return nil, fmt.Errorf("api: webhook provider %s: %w", p.Name, err)
		}
		renamed, err := p.Renamed("{{$guid}}")
		if err != nil {
			return nil, fmt.Errorf("api: webhook provider %s: %w", p.Name, err)
		}
		d.variant = export.Variant{
			Name: p.Name, Summary: d.About.Summary, Example: p.Name, Parameters: map[string]string{"provider": p.Name},
			Body: renamed.Body, Headers: maps.Clone(d.example.Headers),
		}
		maps.Copy(d.variant.Headers, renamed.Headers)
		d.sign()
		list[i] = d
	}
	return list, nil
}

var notInVariables = regexp.MustCompile("[^A-Za-z0-9_]")

// sign says how the provider signs, to people and to exports.
func (d *delivery) sign() {
	var known bool
	if d.recipe, known = d.Signing(); !known {
		// Exports can't sign it, so what they send is refused.
		d.variant.Status = []int{http.StatusOK, http.StatusUnauthorized}
		return
	}
	d.scheme = d.Name + "Signature"
	switch {
	case d.recipe.ByHand:
		d.variant.Status = []int{http.StatusOK, http.StatusUnauthorized}
		return
	case d.TakesForms():
		// Exports send JSON.
		d.variant.Status = []int{http.StatusBadRequest}
	}
	d.secret = notInVariables.ReplaceAllString(d.Name, "_") + "Secret"
	if d.secret[0] < 'a' {
		d.secret = "of_" + d.secret // a variable begins with a letter
	}
	maps.DeleteFunc(d.variant.Headers, func(name, _ string) bool { _, set := d.recipe.More[name]; return set })
	d.variant.Signature = &export.Signature{
		Header: d.recipe.Header, Secret: d.secret, Message: d.recipe.Message, Value: d.recipe.Value, Digest: string(d.recipe.Digest),
		Base64: d.recipe.Base64, Base64Sum: d.recipe.Base64Sum, Headers: d.recipe.More,
	}
}

// Webhooks are the operations on webhook events, and the path that takes them from
// the providers. An error names a provider whose example can't be made.
func Webhooks(receiver DeliveryReceiver, s WebhookService, providers []webhook.Registration) (Resource, error) {
	list, err := deliveries(providers)
	if err != nil {
		return Resource{}, err
	}
	r := Resource{
		Tag: tagWebhooks, Area: "Webhooks",
		Description: "Deliveries from external providers: verified, stored before they are acknowledged, dispatched once.",
		Schemes:     map[string]*huma.SecurityScheme{},
		Register: func(a huma.API) {
			registerAdminWebhooks(a, s)
			registerWebhookLog(a, s)
			registerWebhookEvent(a, s)
			registerWebhookReplays(a, s)
			registerWebhookTargets(a, s)
		},
		Routes: func(r chi.Router) {
			r.With(describeDelivery(list).Middleware).Method(http.MethodPost, deliveryPath, receiveWebhook(receiver))
			if asking := askingByGET(list); len(asking) > 0 {
				r.With(describeChallenge(asking).Middleware).Method(http.MethodGet, challengePath(asking), getChallenge(receiver))
			}
		},
	}
	for _, d := range list {
		if d.scheme != "" {
			r.Schemes[d.scheme] = &huma.SecurityScheme{Type: "apiKey", In: "header", Name: d.recipe.Header, Description: d.recipe.Text}
		}
		if d.secret != "" {
			r.Variables = append(r.Variables, export.Variable{Name: d.secret, Description: "Secret of the webhook provider " + d.Name + "."})
		}
		r.Webhooks = append(r.Webhooks, d.webhook())
	}
	return r, nil
}

// deliveryFailures are what a delivery can be refused with.
func deliveryFailures() []error {
	return []error{
		webhook.ErrProvider, webhook.ErrSignature, webhook.ErrTooLarge, webhook.ErrSlow, webhook.ErrStorage,
		webhook.ErrPayload.With(map[string]string{"external_id": "It is longer than 255 characters."}),
	}
}

// describeDelivery is the description of POST /webhooks/{provider}.
func describeDelivery(list []delivery) *apidoc.Operation {
	o := apidoc.Describe().
		ID(receiveOperation).
		Summary("Deliver a webhook").
		Description("Receive a delivery from a registered provider. The signature is checked over the exact bytes and the event is stored, "+
			"then the delivery is answered. A repeated event is not stored again and is answered `skipped`. Content-Type is ignored.\n\n"+
			"Access: a signature with the provider's secret.").
		Path("provider", &huma.Schema{Type: huma.TypeString, Pattern: "^[a-z0-9_-]+$", MaxLength: new(50)}, "The provider's name.", "payment").
		Body(&huma.Schema{Description: "UTF-8 JSON of any shape that the provider sends."})
	var schemes []string
	var variants []export.Variant
	for _, d := range list {
		o.BodyExample(d.Name, d.example.Body)
		d.addHeaders(o)
		if d.scheme != "" {
			schemes = append(schemes, d.scheme)
		}
		variants = append(variants, d.variant)
	}
	o.Security(schemes...).Extension(export.Extension, export.Hints{Variants: variants, Variant: export.Variant{Order: orderDeliver}})
	withReceipts(o)
	if slices.ContainsFunc(list, delivery.asksByPOST) {
		o.ResponseAlso(http.StatusOK, challengeValue(), "text/plain")
	}
	return o
}

func (d delivery) asksByPOST() bool { return d.Challenge.Method == http.MethodPost }

// askingByGET are the providers that ask before they send events.
func askingByGET(list []delivery) []delivery {
	return slices.DeleteFunc(slices.Clone(list), func(d delivery) bool { return d.Challenge.Method != http.MethodGet })
}

// challengeValue is what is sent back to a provider that asks.
func challengeValue() *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Pattern: "^[A-Za-z0-9_.-]+$", MinLength: new(1), MaxLength: new(256), Description: "The value of the challenge."}
}

// challengePath is deliveryPath for these providers alone: at another's there is no GET, and
// what names the methods of a path there names none.
func challengePath(asking []delivery) string {
	names := make([]string, len(asking))
	for i, d := range asking {
		names[i] = d.Name // of a-z, 0-9, - and _
	}
	return strings.Replace(deliveryPath, "{provider}", "{provider:(?:"+strings.Join(names, "|")+")}", 1)
}

// describeChallenge is the description of GET /webhooks/{provider}.
func describeChallenge(asking []delivery) *apidoc.Operation {
	o := apidoc.Describe().
		ID("get-webhook-challenge").
		Summary("Answer a provider's challenge").
		Description("Some providers verify the URL with a GET request before they send events. If the request has the provider's verification token, "+
			"the answer is the value it asks for, as plain text. For all other providers this path only answers POST.\n\nAccess: a provider's verification token, in the query.").
		Security().
		Path("provider", &huma.Schema{Type: huma.TypeString, Pattern: "^[a-z0-9_-]+$", MaxLength: new(50)}, "The provider's name.", asking[0].Name)
	seen := map[string]bool{}
	var variants []export.Variant
	for _, d := range asking {
		for _, q := range []struct{ name, text string }{
			{d.Challenge.TokenField, "The verification token"}, {d.Challenge.Field, "The value that is sent back: 1 to 256 letters, digits, `_`, `.` and `-`"},
		} {
			if !seen[q.name] {
				o.Query(q.name, "", q.text+", for the provider `"+d.Name+"`.", nil)
			}
			seen[q.name] = true
		}
		variants = append(variants, export.Variant{
			Name: d.Name, Summary: "A challenge of " + d.Name, Parameters: map[string]string{"provider": d.Name}, Status: []int{http.StatusForbidden}, // exports have no token
		})
	}
	o.Extension(export.Extension, export.Hints{Variants: variants, Variant: export.Variant{Order: orderDeliver}}).
		Response(http.StatusOK, challengeValue(), "The value of the challenge.", "text/plain").
		ResponseHeader(http.StatusOK, requestIDHeader, headerReference(requestIDHeader), "")
	return withFailures(o, webhook.ErrNoChallenge, webhook.ErrChallenge,
		webhook.ErrPayload.With(map[string]string{"challenge": "The query string is malformed."}))
}

// webhook is the delivery in the description's section of that name.
func (d delivery) webhook() apidoc.Webhook {
	o := apidoc.Describe().
		ID("deliver-"+d.Name+"-webhook").
		Summary(d.About.Summary).
		Description(strings.TrimSpace(d.About.Description+" Sent to `POST "+deliveryPath+"` with the provider `"+d.Name+"`.")).
		Tags(tagWebhooks).
		Body(d.example.Body, d.mediaType()).
		BodyExample(d.Name, d.example.Body)
	if d.scheme != "" {
		o.Security(d.scheme)
	} else {
		o.Security()
	}
	d.addHeaders(o)
	withReceipts(o)
	if d.asksByPOST() {
		o.ResponseAlso(http.StatusOK, challengeValue(), "text/plain")
	}
	return apidoc.Webhook{Name: d.Name, ReceivedAt: deliveryPath, Operation: o}
}

func (d delivery) mediaType() string {
	if d.TakesForms() {
		return "application/x-www-form-urlencoded"
	}
	return "application/json"
}

// addHeaders describes the headers beside the signature, which is a matter of
// security.
func (d delivery) addHeaders(o *apidoc.Operation) {
	names := slices.AppendSeq(slices.Collect(maps.Keys(d.example.Headers)), maps.Keys(d.recipe.More))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		var example any
		if value, ok := d.example.Headers[name]; ok {
			example = value
		}
		o.Header(name, "", "Sent by the provider `"+d.Name+"`.", example)
	}
}

// withReceipts describes the answers to a delivery.
func withReceipts(o *apidoc.Operation) *apidoc.Operation {
	o.Response(http.StatusOK, receipt{}, "The event is stored durably. `processed`: it was handled, or has no handler. `failed`: its handler failed; an administrator can replay it. "+
		"`pending`: it is still being handled. `skipped`: it is a repetition of a stored event.").
		ResponseHeader(http.StatusOK, requestIDHeader, headerReference(requestIDHeader), "")
	for name, r := range receiptExamples() {
		o.ResponseExample(http.StatusOK, name, r)
	}
	return withFailures(o, deliveryFailures()...)
}

// receiptExamples are the answers to a delivery, by status.
func receiptExamples() map[string]receipt {
	const id = "01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10"
	kind, external := "payment.succeeded", "evt_1"
	return map[string]receipt{
		"processed": {Status: webhook.Processed, ID: id, EventType: &kind, ExternalID: &external},
		"failed":    {Status: webhook.Failed, ID: id},
		"skipped":   {Status: webhook.Skipped, ID: id, Reason: "duplicate"},
		"pending":   {Status: webhook.Pending, ID: id, EventType: &kind, ExternalID: &external},
	}
}
