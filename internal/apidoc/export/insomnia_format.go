package export

// The members of Insomnia's formats that exports use. Sources: the application's
// models for v4 (packages/insomnia/src/models) and its parser for v5
// (packages/insomnia/src/common/import-v5-parser.ts).

type insomniaExport struct {
	Type      string             `json:"_type"`
	Format    int                `json:"__export_format"`
	Date      string             `json:"__export_date"`
	Source    string             `json:"__export_source"`
	Resources []insomniaResource `json:"resources"`
}

// insomniaResource is a workspace, an environment, a request_group or a request,
// each with its own members.
type insomniaResource struct {
	ID          string            `json:"_id"`
	Type        string            `json:"_type"`
	Parent      *string           `json:"parentId"`
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Scope       string            `json:"scope,omitempty"`
	Data        map[string]string `json:"data,omitempty"`
	Environment map[string]string `json:"environment,omitzero"`
	SortKey     *int              `json:"metaSortKey,omitempty"`

	Method              string         `json:"method,omitempty"`
	URL                 string         `json:"url,omitempty"`
	Parameters          []insomniaPair `json:"parameters,omitzero"`
	Headers             []insomniaPair `json:"headers,omitzero"`
	Body                *insomniaBody  `json:"body,omitempty"`
	Authentication      *insomniaAuth  `json:"authentication,omitempty"`
	PreRequestScript    string         `json:"preRequestScript,omitempty"`
	AfterResponseScript string         `json:"afterResponseScript,omitempty"`
	StoreCookies        *bool          `json:"settingStoreCookies,omitempty"`
	SendCookies         *bool          `json:"settingSendCookies,omitempty"`
	RawBody             *bool          `json:"settingDisableRenderRequestBody,omitempty"`
	EncodeURL           *bool          `json:"settingEncodeUrl,omitempty"`
	RebuildPath         *bool          `json:"settingRebuildPath,omitempty"`
	FollowRedirects     string         `json:"settingFollowRedirects,omitempty"`
}

type insomniaPair struct {
	Name        string `json:"name" yaml:"name"`
	Value       string `json:"value" yaml:"value"`
	Description string `json:"description,omitempty" yaml:"description,omitempty"`
	Disabled    bool   `json:"disabled,omitempty" yaml:"disabled,omitempty"`
	Type        string `json:"type,omitempty" yaml:"type,omitempty"`         // of a form's part
	FileName    string `json:"fileName,omitempty" yaml:"fileName,omitempty"` // of a form's part
}

type insomniaBody struct {
	MIMEType string         `json:"mimeType,omitempty" yaml:"mimeType,omitempty"`
	Text     *string        `json:"text,omitempty" yaml:"text,omitempty"`
	Params   []insomniaPair `json:"params,omitempty" yaml:"params,omitempty"`
}

type insomniaAuth struct {
	Type     string `json:"type" yaml:"type"`
	Token    string `json:"token,omitempty" yaml:"token,omitempty"`
	Key      string `json:"key,omitempty" yaml:"key,omitempty"`
	Value    string `json:"value,omitempty" yaml:"value,omitempty"`
	AddTo    string `json:"addTo,omitempty" yaml:"addTo,omitempty"`
	Username string `json:"username,omitempty" yaml:"username,omitempty"`
	Password string `json:"password,omitempty" yaml:"password,omitempty"`
}

type insomniaFile struct {
	Type          string              `yaml:"type"`
	SchemaVersion string              `yaml:"schema_version"`
	Name          string              `yaml:"name"`
	Meta          insomniaMeta        `yaml:"meta"`
	Collection    []insomniaItem      `yaml:"collection"`
	Environments  insomniaEnvironment `yaml:"environments"`
}

type insomniaMeta struct {
	ID          string `yaml:"id"`
	Description string `yaml:"description,omitempty"`
	SortKey     int    `yaml:"sortKey,omitempty"`
}

// insomniaItem is a folder, with Children, or a request.
type insomniaItem struct {
	Name           string              `yaml:"name"`
	Meta           insomniaMeta        `yaml:"meta"`
	Children       []insomniaItem      `yaml:"children,omitempty"`
	Method         string              `yaml:"method,omitempty"`
	URL            string              `yaml:"url,omitempty"`
	PathParameters []insomniaPathValue `yaml:"pathParameters,omitempty"`
	Parameters     []insomniaPair      `yaml:"parameters,omitempty"`
	Headers        []insomniaPair      `yaml:"headers,omitempty"`
	Body           *insomniaBody       `yaml:"body,omitempty"`
	Authentication *insomniaAuth       `yaml:"authentication,omitempty"`
	Scripts        *insomniaScripts    `yaml:"scripts,omitempty"`
	Settings       *insomniaSettings   `yaml:"settings,omitempty"`
}

type insomniaPathValue struct {
	Name  string `yaml:"name"`
	Value string `yaml:"value"`
}

type insomniaScripts struct {
	PreRequest    string `yaml:"preRequest,omitempty"`
	AfterResponse string `yaml:"afterResponse,omitempty"`
}

type insomniaSettings struct {
	RenderRequestBody bool            `yaml:"renderRequestBody"`
	EncodeURL         bool            `yaml:"encodeUrl"`
	FollowRedirects   string          `yaml:"followRedirects"`
	Cookies           insomniaCookies `yaml:"cookies"`
	RebuildPath       bool            `yaml:"rebuildPath"`
}

type insomniaCookies struct {
	Send  bool `yaml:"send"`
	Store bool `yaml:"store"`
}

type insomniaEnvironment struct {
	Name string            `yaml:"name"`
	Meta insomniaMeta      `yaml:"meta"`
	Data map[string]string `yaml:"data"`
}
