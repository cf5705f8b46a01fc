package pages

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/upload"
)

// Uploads keeps files; see api.UploadService.
type Uploads interface {
	List(ctx context.Context, f upload.Filter) ([]upload.Upload, *int64, error)
	Find(ctx context.Context, id int64) (upload.Upload, error)
	Update(ctx context.Context, id int64, c upload.Change) (upload.Upload, error)
	Delete(ctx context.Context, id int64) error
	OpenThumbnail(ctx context.Context, id int64) (upload.Content, error)
	MakeLink(ctx context.Context, id int64, seconds int64) (upload.Link, error)
	Owners(ctx context.Context, after *upload.Owner, limit int) ([]upload.OwnerTotal, error)
	OwnersOf(ctx context.Context, ids ...int64) (map[int64]upload.Owner, error)
	Usage(ctx context.Context) (upload.Usage, error)
}

// UploadPages are the pages of files.
func UploadPages(s Uploads) Section {
	p := uploadPages{s}
	return Section{Label: "Files", Screens: []Screen{
		{Path: "/uploads", Title: "Files", View: "uploads", Read: p.list},
		{Path: "/uploads/owners", Title: "Space by owner", View: "uploads", Read: p.owners},
		{Path: "/uploads/{id}/thumbnail", Serve: p.thumbnail},
		{Path: "/uploads/{id}", View: "upload", Read: p.show, Acts: []Act{
			{Name: "download", Operation: "create-upload-link", Do: p.download},
			{Name: "link", Operation: "create-upload-link", Do: p.link},
			{Name: "rename", Operation: "update-upload", Done: "The file has its new name.", Do: p.rename},
			{Name: "delete", Operation: "delete-upload", Done: "The file is deleted.", Do: p.remove, Ask: &Question{
				Title: "Delete this file?", Button: "Delete the file",
				Detail: "Nobody can read it from now on, by a link neither, and its owner has the space again. This can't be undone.",
			}},
		}},
	}}
}

type uploadPages struct{ s Uploads }

var uploadTabs = tabs{{"Files", DeskPath + "/uploads"}, {"Owners", DeskPath + "/uploads/owners"}}

func uploadPath(id int64) string { return DeskPath + "/uploads/" + strconv.FormatInt(id, 10) }

// filesOf is where an account's files are listed.
func filesOf(owner int64) string {
	return DeskPath + "/uploads?" + query("owner", strconv.FormatInt(owner, 10))
}

// uploadsPage is a list with what all in it take.
type uploadsPage struct {
	listed
	Facts []Fact
}

// uploadPosition is bound to the order that it was made for.
type uploadPosition struct {
	Sort string          `json:"s"`
	At   upload.Position `json:"p"`
}

var (
	errSortOfCursor = fault.Validation(map[string]string{"cursor": "This address is of the list in another order. Begin at its first page."})
	errOwner        = fault.Validation(map[string]string{"owner": "Must be an account's number; the list of owners leads to each one's files."})
)

func (p uploadPages) list(r *http.Request) (any, error) {
	kinds := Field{Name: "type", Label: "Type", Kind: "select", Options: []Option{
		{"", "Any"}, {"image/*", "Images"}, {"text/*", "Texts"}, {"application/*", "Documents and archives"}, {"video/*", "Videos"}, {"audio/*", "Sounds"},
	}}
	if exact := r.URL.Query().Get("type"); exact != "" && !slices.ContainsFunc(kinds.Options, func(o Option) bool { return o.Value == exact }) {
		kinds.Options = append(kinds.Options, Option{exact, exact})
	}
	view := uploadsPage{listed: listed{
		Tabs:   uploadTabs.at("Files"),
		Filter: filterOf(r, Field{Name: "q", Label: "Name", Kind: "search"}, kinds, choice("status", "State", "ready", "pending"), Field{Name: "owner", Label: "Owner's number"}),
	}}
	view.Filter.keep(r, "sort")
	f, err := uploadFilter(r)
	if err != nil {
		return view, err
	}
	found, _, err := p.s.List(r.Context(), f)
	if err != nil {
		return view, err
	}
	var ids []int64
	for _, u := range found {
		ids = append(ids, u.OwnerID)
	}
	if !f.Everyones {
		ids = append(ids, f.OwnerID)
	}
	owners, err := p.s.OwnersOf(r.Context(), ids...)
	if err != nil {
		return view, err
	}
	if view.Facts, err = p.totals(r.Context(), f, owners); err != nil {
		return view, err
	}
	view.Table = uploadTable(r, f, found, owners)
	return view, nil
}

// uploadFilter reads what is asked for.
func uploadFilter(r *http.Request) (upload.Filter, error) {
	q := r.URL.Query()
	f := upload.Filter{
		Everyones: q.Get("owner") == "", Query: q.Get("q"), ContentType: q.Get("type"), Status: upload.Status(q.Get("status")), Sort: q.Get("sort"), Limit: pageRows + 1,
	}
	if !f.Everyones {
		var err error
		if f.OwnerID, err = strconv.ParseInt(q.Get("owner"), 10, 64); err != nil || f.OwnerID < 1 {
			return f, errOwner
		}
	}
	if q.Has("cursor") {
		var at uploadPosition
		if err := continued(r, &at); err != nil {
			return f, err
		}
		if at.Sort != f.Sort || at.At.ID < 1 {
			return f, errSortOfCursor
		}
		f.After = &at.At
	}
	return f, nil
}

// totals are what the files of the list's owner take, or everybody's.
func (p uploadPages) totals(ctx context.Context, f upload.Filter, owners map[int64]upload.Owner) ([]Fact, error) {
	usage, err := p.s.Usage(ctx)
	if err != nil {
		return nil, err
	}
	if f.Everyones {
		return []Fact{{"Space taken", Size(usage.Bytes)}, {"Owners", usage.Owners}, {"Each may have", Size(usage.Quota)}}, nil
	}
	owner, known := owners[f.OwnerID]
	if !known {
		return nil, nil
	}
	return []Fact{{"Owner", ownerLink(owner)}, {"Space taken", Size(owner.Bytes)}, {"Of", Size(usage.Quota)}}, nil
}

// ownerLink leads to an owner's account.
func ownerLink(o upload.Owner) Link {
	if o.Service {
		return Link{Text: o.Name, Href: servicePath(o.ID), Detail: "service account"}
	}
	return Link{Text: o.Name, Href: userPath(o.ID)}
}

func uploadTable(r *http.Request, f upload.Filter, list []upload.Upload, owners map[int64]upload.Owner) Table {
	sort := f.Sort
	if sort == "" {
		sort = "-created_at"
	}
	t := Table{
		Caption: "Files", Empty: Empty{Title: "No files", Detail: "No file has these properties. Files are sent by POST /api/uploads."},
		Columns: []Column{{Label: "Picture"}, sortable(r, "File", "filename", sort), {Label: "Type"}, sortable(r, "Size", "size", sort), {Label: "Owner"}, sortable(r, "Sent", "created_at", sort)},
	}
	t.Columns[1].Wide, t.Columns[3].Number = true, true
	rows(&t, r, list, func(u upload.Upload) Row {
		var picture any
		if u.ThumbnailType != "" {
			picture = Picture{Src: uploadPath(u.ID) + "/thumbnail"}
		}
		kind := []any{u.ContentType}
		if u.Status == upload.Pending {
			kind = append(kind, Badge{"pending", "wait"})
		}
		return Row{Cells: []any{picture, Link{Text: u.Filename, Href: uploadPath(u.ID)}, kind, Size(u.Size), Link{Text: owners[u.OwnerID].Name, Href: filesOf(u.OwnerID)}, u.CreatedAt}}
	}, func(u upload.Upload) any { return uploadPosition{f.Sort, u.Position()} })
	return t
}

type ownerPosition struct {
	Bytes int64 `json:"b"`
	ID    int64 `json:"i"`
}

func (p uploadPages) owners(r *http.Request) (any, error) {
	var after *upload.Owner
	if r.URL.Query().Has("cursor") {
		var at ownerPosition
		if err := continued(r, &at); err != nil {
			return nil, err
		}
		after = &upload.Owner{Bytes: at.Bytes, ID: at.ID}
	}
	list, err := p.s.Owners(r.Context(), after, pageRows+1)
	if err != nil {
		return nil, err
	}
	usage, err := p.s.Usage(r.Context())
	if err != nil {
		return nil, err
	}
	t := Table{
		Caption: "Owners, those whose files take most first", Empty: Empty{Title: "No files", Detail: "Nobody has sent a file yet."},
		Columns: []Column{{Label: "Owner", Wide: true}, {Label: "Files", Number: true}, {Label: "Space", Number: true}, {Label: "Of what it may have", Number: true}, {Label: "Account"}},
	}
	rows(&t, r, list, func(o upload.OwnerTotal) Row {
		account := ownerLink(o.Owner)
		account.Text, account.Detail = "Account", ""
		if o.Service {
			account.Text = "Service account"
		}
		share := fmt.Sprintf("%.1f %%", float64(o.Bytes)*100/float64(usage.Quota))
		return Row{Cells: []any{Link{Text: o.Name, Href: filesOf(o.ID)}, o.Files, Size(o.Bytes), share, account}}
	}, func(o upload.OwnerTotal) any { return ownerPosition{o.Bytes, o.ID} })
	return uploadsPage{listed: listed{Tabs: uploadTabs.at("Owners"), Table: t}, Facts: []Fact{{"Space taken", Size(usage.Bytes)}, {"Owners", usage.Owners}, {"Each may have", Size(usage.Quota)}}}, nil
}

// uploadPage is one file.
type uploadPage struct {
	File    upload.Upload
	Facts   []Fact
	Picture *Picture
	Buttons []Button
	Link    Form
	Rename  Form
	// Made is a link that was just made.
	Made *upload.Link
}

// PageTitle is the file's name.
func (p uploadPage) PageTitle() string { return p.File.Filename }

// forms implements formed.
func (p uploadPage) forms() []Form { return []Form{p.Link, p.Rename} }

func (p uploadPages) show(r *http.Request) (any, error) {
	view, err := p.page(r)
	if err != nil {
		return nil, err // not view, which holds nothing
	}
	return view, nil
}

func (p uploadPages) page(r *http.Request) (uploadPage, error) {
	id, err := numberIn(r, "id", upload.ErrNoUpload)
	if err != nil {
		return uploadPage{}, err
	}
	u, err := p.s.Find(r.Context(), id)
	if err != nil {
		return uploadPage{}, err
	}
	owners, err := p.s.OwnersOf(r.Context(), u.OwnerID)
	if err != nil {
		return uploadPage{}, err
	}
	at := uploadPath(id)
	view := uploadPage{File: u, Facts: uploadFacts(u, owners[u.OwnerID])}
	if u.ThumbnailType != "" {
		view.Picture = &Picture{Src: at + "/thumbnail", Text: "Thumbnail of " + u.Filename}
	}
	if u.Status == upload.Ready {
		view.Buttons = append(view.Buttons, Button{Label: "Download", Action: at + "/download"})
		view.Link = Form{Action: at + "/link", Button: "Make a link", Line: true, Fields: []Field{{
			Name: "expires_in", Label: "A link for everybody, for", Kind: "select", Value: "3600",
			Options: []Option{{"300", "5 minutes"}, {"3600", "1 hour"}, {strconv.Itoa(upload.MaxLink), "1 day"}},
		}}}
	}
	view.Rename = Form{Action: at + "/rename", Button: "Rename", Line: true, Fields: []Field{{Name: "filename", Label: "Name", Value: u.Filename, Required: true}}}
	view.Buttons = append(view.Buttons, Button{Label: "Delete", Action: at + "/delete", Asks: true, Danger: true})
	return view, nil
}

func uploadFacts(u upload.Upload, owner upload.Owner) []Fact {
	state := Badge{"ready", "good"}
	if u.Status == upload.Pending {
		state = Badge{"pending", "wait"}
	}
	facts := []Fact{
		{"State", state}, {"Type", u.ContentType}, {"Size", Size(u.Size)}, {"Owner", ownerLink(owner)}, {"Sent", u.CreatedAt}, {"Changed", u.UpdatedAt},
		{"Number", u.ID}, {"SHA-256", Code(hex.EncodeToString(u.SHA256))},
		{"What was done with it", Link{Text: "in the audit log", Href: DeskPath + "/audit?" + url.Values{"table": {"uploads"}, "row_id": {strconv.FormatInt(u.ID, 10)}}.Encode()}},
	}
	if u.Width > 0 {
		facts = slices.Insert(facts, 2, Fact{"Picture", fmt.Sprintf("%s by %s pixels", grouped(int64(u.Width)), grouped(int64(u.Height)))})
	}
	return facts
}

// thumbnailPolicy runs nothing of what is opened by itself.
const thumbnailPolicy = "default-src 'none'; sandbox; frame-ancestors 'none'"

// maxThumbnail bounds what is served as one, in bytes; ours are far smaller.
const maxThumbnail = 4 << 20

var errThumbnail = errors.New("pages: a thumbnail is larger than any that is made")

// thumbnail is the small copy that Waypost made of an image, and never the file itself.
func (p uploadPages) thumbnail(w http.ResponseWriter, r *http.Request) error {
	id, err := numberIn(r, "id", upload.ErrNoUpload)
	if err != nil {
		return err
	}
	c, err := p.s.OpenThumbnail(r.Context(), id)
	if err != nil {
		return err
	}
	defer c.Close()
	if c.ThumbnailType != "image/jpeg" && c.ThumbnailType != "image/png" && c.ThumbnailType != "image/webp" {
		return fmt.Errorf("pages: thumbnail %d is of type %q", id, c.ThumbnailType)
	}
	body, err := io.ReadAll(io.LimitReader(c.Object, maxThumbnail+1))
	if err != nil {
		return fmt.Errorf("pages: read a thumbnail: %w", err)
	}
	if len(body) > maxThumbnail {
		return errThumbnail
	}
	h := w.Header()
	h.Set("Content-Type", c.ThumbnailType)
	h.Set("Content-Disposition", "inline")
	h.Set("Content-Security-Policy", thumbnailPolicy)
	h.Set("Cache-Control", "private, no-cache")
	h.Set("ETag", `"`+hex.EncodeToString(c.SHA256)+`-thumbnail"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	return nil
}

// downloadTime is how long the link of a download is good for: it is followed at once.
const downloadTime = 60

// download leads to the file by a link of the moment, which answers with an attachment.
func (p uploadPages) download(r *http.Request) (Outcome, error) {
	id, err := numberIn(r, "id", upload.ErrNoUpload)
	if err != nil {
		return Outcome{}, err
	}
	link, err := p.s.MakeLink(r.Context(), id, downloadTime)
	if err != nil {
		return Outcome{}, err
	}
	u, err := url.Parse(link.URL)
	if err != nil {
		return Outcome{}, fmt.Errorf("pages: a link that is none: %w", err)
	}
	return Outcome{Away: u.RequestURI()}, nil // on whatever host the pages are visited
}

func (p uploadPages) link(r *http.Request) (Outcome, error) {
	id, err := numberIn(r, "id", upload.ErrNoUpload)
	if err != nil {
		return Outcome{}, err
	}
	seconds, err := strconv.ParseInt(r.PostForm.Get("expires_in"), 10, 64)
	if err != nil {
		seconds = 0 // which is refused
	}
	link, err := p.s.MakeLink(r.Context(), id, seconds)
	if err != nil {
		return Outcome{}, err
	}
	view, err := p.page(r)
	view.Made = &link
	return Outcome{Show: &Shown{View: "upload", Data: view}}, err
}

func (p uploadPages) rename(r *http.Request) (Outcome, error) {
	id, err := numberIn(r, "id", upload.ErrNoUpload)
	if err == nil {
		_, err = p.s.Update(r.Context(), id, upload.Change{Filename: new(r.PostForm.Get("filename"))})
	}
	return Outcome{}, err
}

func (p uploadPages) remove(r *http.Request) (Outcome, error) {
	id, err := numberIn(r, "id", upload.ErrNoUpload)
	if err == nil {
		err = p.s.Delete(r.Context(), id)
	}
	return Outcome{To: "/uploads"}, err
}
