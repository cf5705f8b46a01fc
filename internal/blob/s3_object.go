package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/minio/minio-go/v7"
)

// s3Object is an object whose bytes are fetched by range, from where a Read begins
// to the end.
type s3Object struct {
	s      *S3
	ctx    context.Context
	info   minio.ObjectInfo
	at     int64         // where the next Read begins
	body   io.ReadCloser // nil, or what follows bodyAt
	bodyAt int64
	closed bool
}

func (o *s3Object) Size() int64           { return o.info.Size }
func (o *s3Object) ModifiedAt() time.Time { return o.info.LastModified.UTC() }

func (o *s3Object) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += o.at
	case io.SeekEnd:
		offset += o.info.Size
	default:
		return 0, errors.New("blob: bad whence")
	}
	if offset < 0 {
		return 0, errors.New("blob: negative position")
	}
	o.at = offset
	return offset, nil
}

func (o *s3Object) Read(p []byte) (int, error) {
	switch remaining := o.info.Size - o.at; {
	case o.closed:
		return 0, fs.ErrClosed
	case len(p) == 0:
		return 0, nil
	case remaining <= 0:
		return 0, io.EOF
	case int64(len(p)) > remaining:
		p = p[:remaining]
	}
	if err := o.fetch(); err != nil {
		return 0, err
	}
	n, err := o.body.Read(p)
	o.at += int64(n)
	o.bodyAt = o.at
	if err == nil || errors.Is(err, io.EOF) && o.at == o.info.Size {
		return n, nil
	}
	o.drop()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, o.s.failed(o.ctx, err)
}

// fetch asks for what begins where the next Read does, unless it is at hand.
func (o *s3Object) fetch() error {
	if o.body != nil && o.bodyAt == o.at {
		return nil
	}
	o.drop()
	var get minio.GetObjectOptions
	if o.at > 0 {
		if err := get.SetRange(o.at, 0); err != nil {
			return err
		}
	}
	if err := get.SetMatchETag(o.info.ETag); err != nil {
		return o.s.failed(o.ctx, err)
	}
	body, info, _, err := o.s.core.GetObject(o.ctx, o.s.o.Bucket, o.info.Key, get)
	if code := minio.ToErrorResponse(err).Code; code == minio.NoSuchKey {
		return ErrNotFound
	}
	if err != nil {
		return o.s.failed(o.ctx, err)
	}
	if info.Size != o.info.Size-o.at {
		_ = body.Close()
		return ErrUnavailable.Because(fmt.Errorf("the S3 server sends %d bytes where %d were asked for", info.Size, o.info.Size-o.at))
	}
	o.body, o.bodyAt = body, o.at
	return nil
}

// smallRest is how many bytes are read to the end, so that the connection can be
// used again.
const smallRest = 64 << 10

func (o *s3Object) drop() {
	if o.body == nil {
		return
	}
	if o.info.Size-o.bodyAt <= smallRest {
		_, _ = io.CopyN(io.Discard, o.body, smallRest)
	}
	_ = o.body.Close()
	o.body = nil
}

func (o *s3Object) Close() error {
	o.drop()
	o.closed = true
	return nil
}
