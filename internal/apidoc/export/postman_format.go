package export

// The members of a Postman Collection v2.1 that exports use.
// Source: the schema at postmanSchema.

type postmanCollection struct {
	Info     postmanInfo       `json:"info"`
	Item     []postmanItem     `json:"item"`
	Auth     *postmanAuth      `json:"auth"`
	Variable []postmanVariable `json:"variable"`
}

type postmanInfo struct {
	PostmanID   string `json:"_postman_id"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Version     string `json:"version,omitempty"`
	Schema      string `json:"schema"`
}

// postmanItem is a folder, with Item, or a request.
type postmanItem struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Description string            `json:"description,omitempty"` // of a folder
	Item        []postmanItem     `json:"item,omitempty"`
	Event       []postmanEvent    `json:"event,omitempty"`
	Request     *postmanRequest   `json:"request,omitempty"`
	Response    []postmanResponse `json:"response,omitzero"`
	Behavior    *postmanBehavior  `json:"protocolProfileBehavior,omitempty"`
}

type postmanBehavior struct {
	FollowRedirects bool `json:"followRedirects"`
}

type postmanEvent struct {
	Listen string        `json:"listen"`
	Script postmanScript `json:"script"`
}

type postmanScript struct {
	ID   string   `json:"id"`
	Type string   `json:"type"`
	Exec []string `json:"exec"`
}

type postmanRequest struct {
	Method      string          `json:"method"`
	URL         postmanURL      `json:"url"`
	Description string          `json:"description,omitempty"`
	Auth        *postmanAuth    `json:"auth,omitempty"`
	Header      []postmanHeader `json:"header"`
	Body        *postmanBody    `json:"body,omitempty"`
}

type postmanURL struct {
	Raw      string            `json:"raw"`
	Host     []string          `json:"host"`
	Path     []string          `json:"path"`
	Query    []postmanQuery    `json:"query,omitempty"`
	Variable []postmanVariable `json:"variable,omitempty"`
}

type postmanQuery struct {
	Key         string `json:"key"`
	Value       string `json:"value"`
	Description string `json:"description,omitempty"`
	Disabled    bool   `json:"disabled,omitempty"`
}

type postmanVariable struct {
	Key         string `json:"key"`
	Value       string `json:"value"`
	Type        string `json:"type,omitempty"`
	Description string `json:"description,omitempty"`
}

type postmanHeader struct {
	Key         string `json:"key"`
	Value       string `json:"value"`
	Description string `json:"description,omitempty"`
	Disabled    bool   `json:"disabled,omitempty"`
}

type postmanBody struct {
	Mode       string          `json:"mode"`
	Raw        *string         `json:"raw,omitempty"`
	FormData   []postmanPart   `json:"formdata,omitempty"`
	URLEncoded []postmanPart   `json:"urlencoded,omitempty"`
	Options    *postmanOptions `json:"options,omitempty"`
}

// postmanPart of a form. A part with FileName and Value is sent as that file.
type postmanPart struct {
	Key      string `json:"key"`
	Value    string `json:"value,omitempty"`
	Type     string `json:"type,omitempty"`
	FileName string `json:"fileName,omitempty"`
	Disabled bool   `json:"disabled,omitempty"`
}

type postmanOptions struct {
	Raw postmanRawOptions `json:"raw"`
}

type postmanRawOptions struct {
	Language string `json:"language"`
}

type postmanAuth struct {
	Type   string             `json:"type"`
	Bearer []postmanAttribute `json:"bearer,omitempty"`
	APIKey []postmanAttribute `json:"apikey,omitempty"`
	Basic  []postmanAttribute `json:"basic,omitempty"`
}

type postmanAttribute struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	Type  string `json:"type"`
}

type postmanResponse struct {
	ID              string          `json:"id"`
	Name            string          `json:"name"`
	OriginalRequest *postmanRequest `json:"originalRequest"`
	Status          string          `json:"status"`
	Code            int             `json:"code"`
	PreviewLanguage string          `json:"_postman_previewlanguage,omitempty"`
	Header          []postmanHeader `json:"header"`
	Cookie          []struct{}      `json:"cookie"`
	Body            string          `json:"body,omitempty"`
}
