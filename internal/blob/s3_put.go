package blob

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"

	"github.com/minio/minio-go/v7"
)

// putMark is the name of the metadata that tells one Put from another: by it a Put
// whose answer was lost learns whether it was done.
const putMark = "Put"

// Put sends one request if everything fits into one part, and else a multipart
// upload, a part after the other from the same memory.
func (s *S3) Put(ctx context.Context, key, contentType string, r io.Reader) (int64, error) {
	if err := CheckKey(key); err != nil {
		return 0, err
	}
	o := minio.PutObjectOptions{
		ContentType: contentType, UserMetadata: map[string]string{putMark: rand.Text()},
		DisableContentSha256: true, // of chunks: we give that of the whole
	}
	small := s.small.Get().(*[smallSize]byte)
	defer s.small.Put(small)
	n, ended, err := readBlock(ctx, r, small[:])
	switch {
	case err != nil:
		return 0, err
	case ended:
		return s.putWhole(ctx, key, o, small[:n])
	}
	buffer := s.buffers.Get().(*[partSize + 1]byte)
	defer s.buffers.Put(buffer)
	copy(buffer[:], small[:])
	m, _, err := readBlock(ctx, r, buffer[n:])
	switch n += m; {
	case err != nil:
		return 0, err
	case n <= partSize:
		return s.putWhole(ctx, key, o, buffer[:n])
	}
	return s.putParts(ctx, key, o, buffer, r)
}

// putWhole sends everything in one request.
func (s *S3) putWhole(ctx context.Context, key string, o minio.PutObjectOptions, body []byte) (int64, error) {
	size := int64(len(body))
	_, err := s.core.PutObject(ctx, s.o.Bucket, key, bytes.NewReader(body), size, "", digest(body), o)
	if err != nil && !s.done(ctx, key, o.UserMetadata[putMark], err) {
		return 0, s.failed(ctx, err)
	}
	return size, nil
}

// putParts sends what is in buffer, which is full, and the rest of r.
func (s *S3) putParts(ctx context.Context, key string, o minio.PutObjectOptions, buffer *[partSize + 1]byte, r io.Reader) (int64, error) {
	id, err := s.core.NewMultipartUpload(ctx, s.o.Bucket, key, o)
	if err != nil {
		return 0, s.failed(ctx, err)
	}
	parts, size, err := s.sendParts(ctx, key, id, buffer, r)
	if err != nil {
		s.abort(ctx, key, id)
		return 0, err
	}
	_, err = s.core.CompleteMultipartUpload(ctx, s.o.Bucket, key, id, parts, minio.PutObjectOptions{})
	if err != nil && !s.done(ctx, key, o.UserMetadata[putMark], err) {
		s.abort(ctx, key, id)
		return 0, s.failed(ctx, err)
	}
	return size, nil
}

// sendParts sends parts until r ends. A full buffer holds a part and the first byte
// of the next one, which tells that there is a next one.
func (s *S3) sendParts(ctx context.Context, key, id string, buffer *[partSize + 1]byte, r io.Reader) ([]minio.CompletePart, int64, error) {
	var parts []minio.CompletePart
	var size int64
	for n := len(buffer); len(parts) < maxParts; {
		body := buffer[:min(n, partSize)]
		part, err := s.core.PutObjectPart(ctx, s.o.Bucket, key, id, len(parts)+1, bytes.NewReader(body), int64(len(body)),
			minio.PutObjectPartOptions{Sha256Hex: digest(body), DisableContentSha256: true})
		if err != nil {
			return nil, 0, s.failed(ctx, err)
		}
		parts = append(parts, minio.CompletePart{PartNumber: part.PartNumber, ETag: part.ETag})
		if size += int64(len(body)); n <= partSize {
			return parts, size, nil
		}
		buffer[0] = buffer[partSize]
		m, _, err := readBlock(ctx, r, buffer[1:])
		if err != nil {
			return nil, 0, err
		}
		n = m + 1
	}
	return nil, 0, errors.New("blob: S3 takes at most 10,000 parts of 5 MiB of one object")
}

// digest is the SHA-256 that the server must find, too: the same memory is sent
// again after a failure, and what was sent wrongly is refused.
func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// done reports whether the server did a Put although it failed with err, which
// may be a lost answer.
func (s *S3) done(ctx context.Context, key, mark string, err error) bool {
	if code := minio.ToErrorResponse(err).StatusCode; code >= 400 && code < 500 && code != http.StatusNotFound {
		return false // a refusal; after a lost answer, a multipart upload is not found
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleaningTime)
	defer cancel()
	info, err := s.stat(ctx, key)
	return err == nil && info.UserMetadata[putMark] == mark
}

// abort deletes the parts of a multipart upload. What can't be deleted now is for
// SweepIncomplete.
func (s *S3) abort(ctx context.Context, key, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleaningTime)
	defer cancel()
	_ = s.core.AbortMultipartUpload(ctx, s.o.Bucket, key, id)
}
