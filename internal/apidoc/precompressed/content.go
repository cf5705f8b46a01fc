// Package precompressed serves bytes from memory in the coding that the client
// prefers: brotli, gzip, zstd or none. Each coding has a strong ETag of its own (RFC
// 9110, section 8.8.3.3), HEAD answers like GET, and If-None-Match is honoured.
package precompressed

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	kgzip "github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// minCompressed is the size in bytes below which a coding costs more than it saves.
const minCompressed = 1024

// coded is the field of requests that the coding depends on.
const coded = "Accept-Encoding"

// brotliQuality: 11 takes seconds for a large document, 9 a tenth of that for a
// few per cent more bytes.
const brotliQuality = 9

const zstdLevel = int(zstd.SpeedBetterCompression)

// Content is one resource, safe for concurrent use.
type Content struct {
	tag      string      // names the content in ETags
	header   http.Header // of every answer
	variants map[string]*variant
}

// variant is the resource in one content coding; "" is none.
type variant struct {
	etag   string
	fields []field // of every answer
	whole  func() whole
}

// whole is a 200.
type whole struct {
	fields []field // the variant's, and what a 304 does not have
	body   []byte
}

// field is one of a header. Lists of them are passed through in less time than maps.
type field struct {
	name   string
	values []string
}

// fieldsOf lists a header, for all answers to share: an Add makes another slice.
func fieldsOf(h http.Header) []field {
	fields := make([]field, 0, len(h))
	for name, values := range h {
		fields = append(fields, field{name, slices.Clip(values)})
	}
	return fields
}

// New serves body with the given header fields. It is compressed once, when the
// first client asks for that coding.
func New(body []byte, header http.Header) *Content {
	sum := sha256.Sum256(body)
	c := newContent(hex.EncodeToString(sum[:16]), header)
	c.add("", func() []byte { return body })
	if len(body) >= minCompressed {
		c.add("br", func() []byte { return compress(brotli.NewWriterLevel, body, brotliQuality) })
		c.add("gzip", func() []byte { return compress(newGzipWriter, body, kgzip.BestCompression) })
		c.add("zstd", func() []byte { return compress(newZstdWriter, body, zstdLevel) })
	}
	return c
}

// Stored serves an asset that is kept in both codings; sum names its content. The
// bytes, which must be intact, are read for the first client that asks for them, and
// the plain ones unpacked.
func Stored(br, gz func() []byte, sum string, header http.Header) *Content {
	c := newContent(sum, header)
	c.add("br", br)
	c.add("gzip", gz)
	c.add("", func() []byte {
		r, err := gzip.NewReader(bytes.NewReader(gz()))
		if err != nil {
			panic("precompressed: a stored asset is damaged: " + err.Error())
		}
		plain, err := io.ReadAll(r)
		if err != nil {
			panic("precompressed: a stored asset is damaged: " + err.Error())
		}
		return plain
	})
	c.add("zstd", func() []byte { return compress(newZstdWriter, c.variants[""].whole().body, zstdLevel) })
	return c
}

func newContent(tag string, header http.Header) *Content {
	h := header.Clone()
	h.Set("X-Content-Type-Options", "nosniff")
	return &Content{tag: tag, header: h, variants: map[string]*variant{}}
}

func (c *Content) add(coding string, body func() []byte) {
	etag := c.tag
	if coding != "" {
		etag += "-" + coding
	}
	always := c.header.Clone()
	always.Set("ETag", `"`+etag+`"`)
	always.Set("Vary", coded)
	v := &variant{etag: always.Get("ETag"), fields: fieldsOf(always)}
	v.whole = sync.OnceValue(func() whole {
		b, h := body(), always.Clone()
		h.Set("Content-Length", strconv.Itoa(len(b)))
		if coding != "" {
			h.Set("Content-Encoding", coding)
		}
		return whole{fieldsOf(h), b}
	})
	c.variants[coding] = v
}

func newGzipWriter(w io.Writer, level int) *kgzip.Writer {
	z, err := kgzip.NewWriterLevel(w, level)
	if err != nil {
		panic(err) // only for a level that does not exist
	}
	return z
}

func newZstdWriter(w io.Writer, level int) *zstd.Encoder {
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.EncoderLevel(level)), zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err) // only for options that contradict each other
	}
	return z
}

// compress cannot fail: it writes to memory.
func compress[W io.WriteCloser](open func(io.Writer, int) W, body []byte, level int) []byte {
	var out bytes.Buffer
	w := open(&out, level)
	if _, err := w.Write(body); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// varyOnCoding says that the answer depends on Accept-Encoding, once: a middleware
// may have said so, and others may vary on more.
func varyOnCoding(h http.Header) {
	for _, list := range h.Values("Vary") {
		for field := range strings.SplitSeq(list, ",") {
			if field = strings.TrimSpace(field); field == "*" || strings.EqualFold(field, coded) {
				return
			}
		}
	}
	h.Add("Vary", coded)
}

// put adds fields to h.
func put(h http.Header, fields []field) {
	varied := h["Vary"]
	for _, f := range fields {
		h[f.name] = f.values
	}
	if varied != nil {
		h["Vary"] = varied
		varyOnCoding(h)
	}
}

// ServeHTTP answers GET and HEAD: 200, or 304 when the client has this very
// representation.
func (c *Content) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := c.variants[c.negotiate(r.Header.Values(coded))]
	h := w.Header()
	if matches(r.Header.Values("If-None-Match"), v.etag) {
		put(h, v.fields)
		w.WriteHeader(http.StatusNotModified)
		return
	}
	whole := v.whole()
	put(h, whole.fields)
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(whole.body) // the client is gone: nobody to tell
	}
}

// matches implements the comparison of RFC 9110, section 13.1.2.
func matches(fields []string, etag string) bool {
	for _, field := range fields {
		for candidate := range strings.SplitSeq(field, ",") {
			candidate = strings.TrimPrefix(strings.TrimSpace(candidate), "W/")
			if candidate == etag || candidate == "*" {
				return true
			}
		}
	}
	return false
}
