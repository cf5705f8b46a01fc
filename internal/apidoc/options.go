package apidoc

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/apidoc/ui"
)

// UI names one of the two interactive pages.
type UI = ui.Kind

// The pages: Alternate, the zero value, is Swagger UI; Primary is Scalar.
const (
	Alternate = ui.Alternate
	Primary   = ui.Primary
)

// Auth is the security scheme that is declared next to those the live
// description has; the zero Auth declares none.
type Auth struct {
	Name         string // key among the security schemes
	Scheme       string // of HTTP authentication, "bearer"
	BearerFormat string // "JWT"
}

// BearerJWT is the scheme "bearer": an access token in the Authorization header.
func BearerJWT() Auth { return Auth{Name: "bearer", Scheme: "bearer", BearerFormat: "JWT"} }

// Route is a route of the router. Give New those that have no Huma operation and
// are no alias, page or asset; what is documented already is recognised and left
// alone.
type Route struct {
	Method string
	Path   string // a pattern in braces, "/webhooks/{provider}"
	// Operation is what the route itself carries, see OperationOf; may be nil.
	Operation *Operation
}

// Webhook is a delivery that the API takes from elsewhere, for the section
// webhooks.
type Webhook struct {
	Name string
	// ReceivedAt is the path that takes it: without that, it is left out too.
	ReceivedAt string
	Operation  *Operation
}

// Options of New. Only API is mandatory.
type Options struct {
	// API is the live description. It is read, never changed, except that the
	// schemas of models get into its registry during New.
	API    *huma.OpenAPI
	Routes []Route

	Prefix      string // URL path of the documentation; "/docs"
	Title       string // "API Documentation"
	Version     string // of the API; "1.0.0"
	Description string // Markdown
	UI          UI     // shown when the request names none
	Theme       string // of the primary UI; "kepler"
	// Models are structs, such as User{}, whose schemas are shown even when no
	// route has them.
	Models   []any
	Auth     Auth
	Webhooks []Webhook
	// Sequence are operationIds in the order in which they are used. Within a tag, readers
	// see operations in that order, those that are not in it first.
	Sequence []string
	// Overrides say more about single routes. They win over what a route carries.
	Overrides *Overrides
	// DevMode makes everything anew for each request.
	DevMode bool
	// ReadOnly leaves no way to send a request from either UI.
	ReadOnly bool
	// ReportTo ends the policies of both UIs' pages with where violations are reported,
	// such as "; report-uri /reports"; ReportingEndpoints is the header of that name. Both
	// may be "".
	ReportTo, ReportingEndpoints string
	// ExcludeRoutes are globs of paths that are left out: * stands for anything
	// within a segment, ** for anything at all.
	ExcludeRoutes []string
	// ExcludePrefixes are beginnings of paths that are left out.
	ExcludePrefixes []string
}

// themes of Scalar 1.72.
var themes = []string{
	"alternate", "bluePlanet", "deepSpace", "default", "elysiajs", "fastify", "kepler", "laserwave", "mars",
	"moon", "none", "purple", "saturn", "solarized",
}

func (o Options) withDefaults() Options {
	o.Prefix = cmp.Or(o.Prefix, "/docs")
	o.Title = cmp.Or(o.Title, "API Documentation")
	o.Version = cmp.Or(o.Version, "1.0.0")
	o.Theme = cmp.Or(o.Theme, "kepler")
	return o
}

func (o Options) validate() error {
	var errs []error
	if o.API == nil || o.API.Components == nil || o.API.Components.Schemas == nil {
		errs = append(errs, errors.New("API is missing"))
	}
	if len(o.Prefix) < 2 || o.Prefix[0] != '/' || strings.HasSuffix(o.Prefix, "/") || strings.ContainsAny(o.Prefix, "{}*?#") {
		errs = append(errs, fmt.Errorf("prefix %q is not a path like /docs", o.Prefix))
	}
	if o.UI > Primary {
		errs = append(errs, fmt.Errorf("there is no UI %d", o.UI))
	}
	if !slices.Contains(themes, o.Theme) {
		errs = append(errs, fmt.Errorf("theme %q is not one of %s", o.Theme, strings.Join(themes, ", ")))
	}
	if (o.Auth.Name == "") != (o.Auth.Scheme == "") {
		errs = append(errs, errors.New("auth needs both a name and a scheme"))
	}
	for _, m := range o.Models {
		if t := reflect.TypeOf(m); t == nil || t.Kind() != reflect.Struct {
			errs = append(errs, fmt.Errorf("model %T is not a struct", m))
		}
	}
	for _, p := range append(slices.Clone(o.ExcludeRoutes), o.ExcludePrefixes...) {
		if !strings.HasPrefix(p, "/") && !strings.HasPrefix(p, "*") {
			errs = append(errs, fmt.Errorf("exclusion %q does not begin like a path", p))
		}
	}
	return errors.Join(errs...)
}

// origins are the hosts of the API's servers, where the UIs may send requests.
func (o Options) origins() []string {
	var origins []string
	for _, s := range o.API.Servers {
		u, err := url.Parse(s.URL)
		if err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") {
			origins = append(origins, u.Scheme+"://"+u.Host)
		}
	}
	slices.Sort(origins)
	return slices.Compact(origins)
}
