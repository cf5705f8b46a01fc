package blob

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
)

// Sizes in bytes. S3 takes parts of 5 MiB or more (the last one apart), at most
// 10,000 of them, and 5 GiB in one request.
const (
	smallSize   = 256 << 10 // what is smaller takes less memory than a part
	partSize    = 5 << 20
	maxParts    = 10_000
	maxPut      = 5 << 30
	copySize    = 512 << 20
	maxExpires  = 7 * 24 * time.Hour
	defaultWait = 30 * time.Second
)

// attempts is how often a request is sent before it has failed.
const attempts = 3

// cleaningTime is how long Put may take after a failure to look what came of it and
// to clean up; its own context may have ended.
const cleaningTime = 10 * time.Second

// S3Options configure NewS3. Endpoint, Bucket, AccessKey and SecretKey are mandatory.
type S3Options struct {
	Endpoint             string // https://s3.example.com; http only where the network is trusted
	Region               string // "us-east-1" by default
	Bucket               string
	AccessKey, SecretKey string
	// PathStyle puts the bucket into the path; without it, it is part of the host.
	PathStyle bool
	// Silence is how long the server may neither send nor take a byte; 30 s by
	// default. How long a request takes in all its context says.
	Silence time.Duration
	// CopySize is how many bytes Move lets the server copy in one request; 512 MiB by
	// default, so that the server isn't silent for too long; 5 MiB at least.
	CopySize int64
	// Now is the clock; nil for the system's. What is signed uses the system's.
	Now func() time.Time
}

func (o S3Options) withDefaults() S3Options {
	o.Region = cmp.Or(o.Region, "us-east-1")
	o.Silence = cmp.Or(o.Silence, defaultWait)
	o.CopySize = cmp.Or(o.CopySize, int64(copySize))
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// S3 is a store in a bucket that belongs to the service alone. No error of it has
// the credentials in it.
type S3 struct {
	o       S3Options
	host    string
	core    *minio.Core
	small   sync.Pool   // *[smallSize]byte
	buffers sync.Pool   // *[partSize + 1]byte
	written atomic.Bool // Check has written once
}

// NewS3 makes the store. It doesn't talk to the server; Check does.
func NewS3(o S3Options) (*S3, error) {
	o = o.withDefaults()
	u, err := url.Parse(o.Endpoint)
	switch {
	case o.AccessKey == "" || o.SecretKey == "":
		return nil, errors.New("blob: S3Options.AccessKey or SecretKey is missing")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Path != "" && u.Path != "/":
		return nil, errors.New("blob: S3Options.Endpoint must be an http(s) URL without a path")
	case s3utils.CheckValidBucketNameStrict(o.Bucket) != nil:
		return nil, fmt.Errorf("blob: S3Options.Bucket: %q is not a name for a bucket", o.Bucket)
	}
	lookup := minio.BucketLookupDNS
	if o.PathStyle {
		lookup = minio.BucketLookupPath
	}
	core, err := minio.NewCore(u.Host, &minio.Options{
		Creds:        credentials.NewStaticV4(o.AccessKey, o.SecretKey, ""),
		Secure:       u.Scheme == "https",
		Transport:    newTransport(o.Silence),
		Region:       o.Region,
		BucketLookup: lookup,
		MaxRetries:   attempts,
	})
	if err != nil {
		return nil, fmt.Errorf("blob: S3Options: %w", err)
	}
	s := &S3{o: o, host: u.Host, core: core}
	s.small.New = func() any { return new([smallSize]byte) }
	s.buffers.New = func() any { return new([partSize + 1]byte) }
	return s, nil
}

// Name is "s3".
func (*S3) Name() string { return "s3" }

// Stat asks for the object's head.
func (s *S3) Stat(ctx context.Context, key string) (Info, error) {
	info, err := s.stat(ctx, key)
	if err != nil {
		return Info{}, err
	}
	return Info{Key: key, Size: info.Size, ModifiedAt: info.LastModified.UTC()}, nil
}

func (s *S3) stat(ctx context.Context, key string) (minio.ObjectInfo, error) {
	if err := CheckKey(key); err != nil {
		return minio.ObjectInfo{}, err
	}
	info, err := s.core.StatObject(ctx, s.o.Bucket, key, minio.StatObjectOptions{})
	if err == nil {
		return info, nil
	}
	if minio.ToErrorResponse(err).StatusCode != http.StatusNotFound {
		return minio.ObjectInfo{}, s.failed(ctx, err)
	}
	// The answer to HEAD doesn't tell whether the object or its bucket is absent.
	exists, err := s.core.BucketExists(ctx, s.o.Bucket)
	switch {
	case err != nil:
		return minio.ObjectInfo{}, s.failed(ctx, err)
	case !exists:
		return minio.ObjectInfo{}, ErrUnavailable.Because(s.noBucket())
	}
	return minio.ObjectInfo{}, ErrNotFound
}

// Open asks for the object's head; its bytes are fetched when they are read.
func (s *S3) Open(ctx context.Context, key string) (Object, error) {
	info, err := s.stat(ctx, key)
	if err != nil {
		return nil, err
	}
	return &s3Object{s: s, ctx: ctx, info: info}, nil
}

// Move lets the server copy the object, whatever its size, and deletes the old one.
func (s *S3) Move(ctx context.Context, from, to string) error {
	if err := CheckKey(to); err != nil {
		return err
	}
	info, err := s.stat(ctx, from)
	if err != nil || from == to {
		return err
	}
	if info.Size > s.o.CopySize {
		err = s.copyParts(ctx, info, to)
	} else {
		_, err = s.core.Client.CopyObject(ctx,
			minio.CopyDestOptions{Bucket: s.o.Bucket, Object: to},
			minio.CopySrcOptions{Bucket: s.o.Bucket, Object: from, MatchETag: info.ETag})
	}
	if err != nil {
		return s.failed(ctx, err)
	}
	return s.Delete(ctx, from)
}

// copyParts copies an object in several requests.
func (s *S3) copyParts(ctx context.Context, from minio.ObjectInfo, to string) error {
	id, err := s.core.NewMultipartUpload(ctx, s.o.Bucket, to, minio.PutObjectOptions{ContentType: from.ContentType})
	if err != nil {
		return err
	}
	var parts []minio.CompletePart
	for at := int64(0); at < from.Size && err == nil; at += s.o.CopySize {
		var part minio.CompletePart
		part, err = s.core.CopyObjectPart(ctx, s.o.Bucket, from.Key, s.o.Bucket, to, id, len(parts)+1,
			at, min(s.o.CopySize, from.Size-at), map[string]string{"X-Amz-Copy-Source-If-Match": from.ETag})
		parts = append(parts, part)
	}
	if err == nil {
		_, err = s.core.CompleteMultipartUpload(ctx, s.o.Bucket, to, id, parts, minio.PutObjectOptions{})
	}
	if err != nil {
		s.abort(ctx, to, id)
	}
	return err
}

// Delete removes the object.
func (s *S3) Delete(ctx context.Context, key string) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	err := s.core.RemoveObject(ctx, s.o.Bucket, key, minio.RemoveObjectOptions{})
	if err != nil && minio.ToErrorResponse(err).Code != minio.NoSuchKey {
		return s.failed(ctx, err)
	}
	return nil
}

// List asks for pages of objects. A server that lists them in another order than
// that of their bytes, as none should, is an error.
func (s *S3) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		last := ""
		for o := range s.core.ListObjectsIter(ctx, s.o.Bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
			switch {
			case o.Err != nil:
				yield(Info{}, s.failed(ctx, o.Err))
				return
			case CheckKey(o.Key) != nil:
				continue // not ours
			case o.Key <= last:
				yield(Info{}, ErrUnavailable.Because(fmt.Errorf("the S3 server lists %q after %q", o.Key, last)))
				return
			}
			last = o.Key
			if !yield(Info{Key: o.Key, Size: o.Size, ModifiedAt: o.LastModified.UTC()}, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(Info{}, err)
		}
	}
}

// SweepIncomplete aborts multipart uploads that were begun before that time.
func (s *S3) SweepIncomplete(ctx context.Context, before time.Time) (int, error) {
	aborted, keyMarker, idMarker := 0, "", ""
	for {
		page, err := s.core.ListMultipartUploads(ctx, s.o.Bucket, "", keyMarker, idMarker, "", 1000)
		if err != nil {
			return aborted, s.failed(ctx, err)
		}
		for _, u := range page.Uploads {
			if CheckKey(u.Key) != nil || !u.Initiated.Before(before) {
				continue
			}
			err := s.core.AbortMultipartUpload(ctx, s.o.Bucket, u.Key, u.UploadID)
			if err != nil && minio.ToErrorResponse(err).Code != minio.NoSuchUpload {
				return aborted, s.failed(ctx, err)
			}
			aborted++
		}
		if !page.IsTruncated || page.NextKeyMarker == keyMarker && page.NextUploadIDMarker == idMarker {
			return aborted, nil
		}
		keyMarker, idMarker = page.NextKeyMarker, page.NextUploadIDMarker
	}
}

// PresignPut signs a PUT with its length, its type and its checksum, if that is
// known. It doesn't talk to the server.
func (s *S3) PresignPut(ctx context.Context, key string, p PutTerms) (Request, error) {
	switch {
	case CheckKey(key) != nil:
		return Request{}, CheckKey(key)
	case p.Size < 0 || p.Size > maxPut:
		return Request{}, fmt.Errorf("blob: S3 takes at most %d bytes in one request", int64(maxPut))
	case p.Expires < time.Second || p.Expires > maxExpires:
		return Request{}, errors.New("blob: a signed address is valid for 1 second to 7 days")
	}
	header := http.Header{"Content-Type": {p.ContentType}, "Content-Length": {strconv.FormatInt(p.Size, 10)}}
	if p.SHA256 != nil {
		header.Set("X-Amz-Checksum-Sha256", base64.StdEncoding.EncodeToString(p.SHA256))
	}
	expires := s.o.Now().Add(p.Expires).UTC().Truncate(time.Second)
	u, err := s.core.PresignHeader(ctx, http.MethodPut, s.o.Bucket, key, p.Expires, nil, header)
	if err != nil {
		return Request{}, s.failed(ctx, err)
	}
	return Request{Method: http.MethodPut, URL: u.String(), Header: header, ExpiresAt: expires}, nil
}
