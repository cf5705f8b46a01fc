package blob

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

// failed is what a failure of the server is for clients and in the log.
func (s *S3) failed(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	return ErrUnavailable.Because(s.explained(err))
}

func (s *S3) noBucket() error {
	return fmt.Errorf("the S3 server has no bucket %q: create it, or correct WAYPOST_S3_BUCKET", s.o.Bucket)
}

// explained says what failed in a sentence for operators. It doesn't wrap err,
// which may have in it what a server sent.
func (s *S3) explained(err error) error {
	r := minio.ToErrorResponse(err)
	said := fmt.Sprintf("the S3 server %s answered %d %s: %s", s.host, r.StatusCode, s.harmless(r.Code), s.harmless(r.Message))
	switch r.Code {
	case "":
		if request, ok := errors.AsType[*url.Error](err); ok {
			err = request.Err // without the address
		}
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
			return fmt.Errorf("the S3 server %s doesn't answer: %s", s.host, s.harmless(err.Error()))
		}
		return fmt.Errorf("the S3 server %s can't be reached or broke off: %s", s.host, s.harmless(err.Error()))
	case minio.NoSuchBucket:
		return s.noBucket()
	case "InvalidAccessKeyId", "XAdminUserNotFound": // the latter is Versity's
		return fmt.Errorf("the S3 server doesn't know WAYPOST_S3_ACCESS_KEY (%s)", said)
	case "SignatureDoesNotMatch":
		return fmt.Errorf("WAYPOST_S3_SECRET_KEY is not that of WAYPOST_S3_ACCESS_KEY, or something between changes requests (%s)", said)
	case minio.AccessDenied, "AllAccessDisabled", "AccountProblem":
		return fmt.Errorf("WAYPOST_S3_ACCESS_KEY may not do this with the bucket %q: see its policy (%s)", s.o.Bucket, said)
	case minio.AuthorizationHeaderMalformed, minio.InvalidRegion, "PermanentRedirect", "TemporaryRedirect":
		return fmt.Errorf("WAYPOST_S3_REGION, WAYPOST_S3_ENDPOINT or WAYPOST_S3_PATH_STYLE is not the bucket's (%s)", said)
	case "RequestTimeTooSkewed":
		return fmt.Errorf("this machine's clock differs from the S3 server's (%s)", said)
	}
	return errors.New(said)
}

// maxSaid bounds what is quoted of a server's text, in bytes.
const maxSaid = 300

// harmless is text without the credentials, in one line of bounded length.
func (s *S3) harmless(text string) string {
	text = strings.ReplaceAll(text, s.o.SecretKey, "[secret key]")
	text = strings.ReplaceAll(text, s.o.AccessKey, "[access key]")
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "?")
	if len(text) > maxSaid {
		text = strings.ToValidUTF8(text[:maxSaid], "") + "..."
	}
	return text
}

// checkTime is how long Check may take.
const checkTime = 10 * time.Second

// Check lists one object, and writes and deletes one until that has worked once.
func (s *S3) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	err := s.checkReading(ctx)
	if err == nil && !s.written.Load() {
		err = s.checkWriting(ctx)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the S3 server %s doesn't answer within %s", s.host, checkTime)
	}
	if err != nil {
		return s.explained(err)
	}
	return nil
}

func (s *S3) checkReading(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for o := range s.core.ListObjectsIter(ctx, s.o.Bucket, minio.ListObjectsOptions{MaxKeys: 1, Recursive: true}) {
		return o.Err
	}
	return ctx.Err()
}

func (s *S3) checkWriting(ctx context.Context) error {
	key := "check/" + strings.ToLower(rand.Text())
	_, err := s.core.PutObject(ctx, s.o.Bucket, key, bytes.NewReader(nil), 0, "", digest(nil), minio.PutObjectOptions{DisableContentSha256: true})
	if err == nil {
		err = s.core.RemoveObject(ctx, s.o.Bucket, key, minio.RemoveObjectOptions{})
	}
	if err == nil {
		s.written.Store(true)
	}
	return err
}
