// Package model makes one plain struct speak for a resource everywhere: its tags
// give the three schemas of the description and the very rules that a request
// body is held to, so that neither can say what the other does not.
//
//	type Article struct {
//		ID        uint      `json:"id" model:"primary" example:"7"`
//		Title     string    `json:"title" model:"required,min=2,max=200" doc:"Headline." example:"Hello"`
//		Contact   string    `json:"contact" model:"required,email,unique" example:"ada@example.com"`
//		State     string    `json:"state" model:"oneof=DRAFT LIVE,default=DRAFT" example:"DRAFT"`
//		Tags      []string  `json:"tags" model:"max=10,dive,min=1,max=30" example:"go,web"`
//		Secret    string    `json:"-"`
//		CreatedAt time.Time `json:"created_at" model:"auto" example:"2026-01-02T15:04:05Z"`
//	}
//
//	huma.Register(api, op, func(ctx context.Context, in *struct{ Body model.Create[Article] }) (*output, error) {
//		return create(ctx, in.Body.Value())
//	})
//
//	huma.Register(api, op, func(ctx context.Context, in *struct {
//		ID   uint `path:"id"`
//		Body model.Update[Article]
//	}) (*output, error) {
//		return change(ctx, in.ID, func(a *Article) { in.Body.Apply(a) })
//	})
//
// The schemas are Article (responses), CreateArticle (without generated fields)
// and UpdateArticle (every field optional). A struct that is only ever a request,
// such as a sign-in, is taken as Request[T] and described as TRequest.
//
// The API's configuration takes its JSON from Format, so that a body is judged by
// these rules and never by an accident of parsing.
//
// # Rules in the model tag
//
//	primary       the key: made by the server, read-only
//	auto          set by the server (timestamps), read-only
//	readonly      kept by the server for another reason, read-only
//	required      must be present on create
//	default=V     taken on create when absent
//	min=N, max=N  characters of a string, value of a number, items of an array
//	oneof=A B C   one of these strings
//	uuid          a UUID
//	host          a host name or an IP address; said of requests alone
//	email         an address of RFC 5321's Dot-string form, at most 254 characters
//	nonblank      has a character that is no white space
//	              and, in a line, min of them without that around them
//	line          one line of text without invisible marks (package text); said
//	              of requests alone, with their nonblank
//	alternative   instead of another field, so absent from the example of a whole body
//	unique        said in the description; the database keeps it
//	dive          the rules after it hold for each item of an array
//
// A field named _ has the rules of the model itself: min=N is how many fields a body that
// creates must carry.
//
// A field without required or default may be absent and is then its zero value;
// json:"-" hides a field from every schema and every body. A pointer is a field
// that may be null. Fields are strings, booleans, numbers, time.Time and arrays
// of these. The doc and example tags are Huma's; each field that a client may
// send carries an example, and the examples are held to the rules at start-up.
//
// # What bodies are held to
//
// A name that the schema does not have (names are case-sensitive) or that comes
// twice, null where the field is no pointer, a string with U+0000, a lone
// surrogate or bytes that are not UTF-8, and a generated field on create are all
// problems of the body, reported together. An update may carry generated fields,
// so that a client can send back what it read: they must have their type and
// change nothing. Whole numbers keep to the 53 bits that every JSON reader
// agrees on (RFC 8259, section 6), times to the years 1000 to 8999.
package model
