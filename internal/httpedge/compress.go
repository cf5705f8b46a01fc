package httpedge

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/CAFxX/httpcompression"
)

// compressAbove is the size in bytes from which an answer is compressed.
const compressAbove = 1024

// compress compresses answers as their clients accept it.
func compress() (func(http.Handler) http.Handler, error) {
	compressed, err := httpcompression.DefaultAdapter(
		httpcompression.MinSize(compressAbove),
		httpcompression.DeflateCompressor(nil), // deflate is ambiguous on the wire and nobody needs it
	)
	if err != nil {
		return nil, fmt.Errorf("httpedge: compression: %w", err)
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			compressed(http.HandlerFunc(func(cw http.ResponseWriter, r *http.Request) {
				if c, ok := cw.(compressor); ok && cw != w {
					cw = &compressedAnswer{c, w, http.NewResponseController(w)}
				}
				next.ServeHTTP(cw, r)
			})).ServeHTTP(w, r)
		})
	}, nil
}

// compressor is what the compressing writer can do.
type compressor interface {
	http.ResponseWriter
	http.Flusher
	http.Hijacker
	io.StringWriter
}

// compressedAnswer lets http.ResponseController reach the connection's deadlines. It
// has no Unwrap, by which one would write past the compression.
type compressedAnswer struct {
	compressor
	plain      http.ResponseWriter
	connection *http.ResponseController
}

// Uncompressed is the answer without compression, for who has written nothing yet.
func (a *compressedAnswer) Uncompressed() http.ResponseWriter { return a.plain }

// Uncompressed returns the writer below the one that compresses w, for bytes that are
// compressed already, or of which a part was asked for. Nothing may have been written,
// and what is written reaches no middleware that is nearer to the handler.
func Uncompressed(w http.ResponseWriter) http.ResponseWriter {
	for inner := w; ; {
		switch v := inner.(type) {
		case interface{ Uncompressed() http.ResponseWriter }:
			return v.Uncompressed()
		case interface{ Unwrap() http.ResponseWriter }:
			inner = v.Unwrap()
		default:
			return w
		}
	}
}

// SetReadDeadline bounds the reading of the request's body.
func (a *compressedAnswer) SetReadDeadline(t time.Time) error { return a.connection.SetReadDeadline(t) }

// SetWriteDeadline bounds the writing of the answer.
func (a *compressedAnswer) SetWriteDeadline(t time.Time) error {
	return a.connection.SetWriteDeadline(t)
}

// EnableFullDuplex lets a handler read on after it has begun its answer.
func (a *compressedAnswer) EnableFullDuplex() error { return a.connection.EnableFullDuplex() }
