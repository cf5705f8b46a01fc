package config

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
)

// The values of Uploads.Backend.
const (
	BackendLocal = "local"
	BackendS3    = "s3"
)

// Uploads are the settings of uploaded files. Both backends may be set, so that the
// files of one stay readable while the other takes the new ones.
type Uploads struct {
	Backend     string   `env:"WAYPOST_UPLOAD_BACKEND" flag:"upload-backend" for:"server" envDefault:"local" help:"Where new files are kept: local (a directory) or s3 (a bucket of an S3-compatible server)"`
	Dir         string   `env:"WAYPOST_UPLOAD_DIR" flag:"upload-dir" for:"server" help:"Directory of the local backend, an absolute path that outlives the container; dev uses uploads in its data directory; until serve has a directory or s3, uploads are answered with 503"`
	Limit       Size     `env:"WAYPOST_UPLOAD_LIMIT" flag:"upload-limit" for:"server" envDefault:"50MiB" help:"Most bytes that an uploaded file may have"`
	Quota       Size     `env:"WAYPOST_UPLOAD_QUOTA" flag:"upload-quota" for:"server" envDefault:"1GiB" help:"Most bytes that all files of one account may have together; what is being uploaded counts"`
	Types       []string `env:"WAYPOST_UPLOAD_TYPES" flag:"upload-types" for:"server" help:"Media types, separated by commas, that uploaded files may have, as found by looking at them; by default raster images, PDF, plain text, CSV, JSON, Markdown, ZIP, office documents, MP3, MP4 and WebM; HTML and SVG are never accepted"`
	S3Endpoint  string   `env:"WAYPOST_S3_ENDPOINT" flag:"s3-endpoint" for:"server" help:"URL of the S3-compatible server, such as https://s3.eu-central-1.amazonaws.com; clients that send files to it directly must reach it, too"`
	S3Region    string   `env:"WAYPOST_S3_REGION" flag:"s3-region" for:"server" envDefault:"us-east-1" help:"Region of the bucket"`
	S3Bucket    string   `env:"WAYPOST_S3_BUCKET" flag:"s3-bucket" for:"server" help:"Bucket that belongs to this installation alone"`
	S3AccessKey string   `env:"WAYPOST_S3_ACCESS_KEY" help:"Access key for the S3-compatible server"`
	S3SecretKey string   `env:"WAYPOST_S3_SECRET_KEY" help:"Secret key for the S3-compatible server"`
	S3PathStyle bool     `env:"WAYPOST_S3_PATH_STYLE" flag:"s3-path-style" for:"server" envDefault:"true" help:"Address the bucket in the path of the URL; with false, in its host name"`
}

// maxUpload is the largest limit of a file.
const maxUpload = 1 << 40

var mediaTypeForm = regexp.MustCompile(`^[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+$`)

var bucketForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// HasS3 reports whether a bucket is set.
func (u Uploads) HasS3() bool { return u.S3Bucket != "" }

func (u Uploads) validate() error {
	var errs []error
	if !slices.Contains([]string{BackendLocal, BackendS3}, u.Backend) {
		errs = append(errs, fmt.Errorf("WAYPOST_UPLOAD_BACKEND: %q is neither local nor s3", u.Backend))
	}
	if u.Limit < 1 || u.Limit > maxUpload {
		errs = append(errs, errors.New("WAYPOST_UPLOAD_LIMIT must be 1 byte to 1TiB"))
	}
	if u.Quota < 1 {
		errs = append(errs, errors.New("WAYPOST_UPLOAD_QUOTA must be 1 byte or more"))
	}
	for _, t := range u.Types {
		if !mediaTypeForm.MatchString(t) {
			errs = append(errs, fmt.Errorf("WAYPOST_UPLOAD_TYPES: %q is no media type, such as image/png", t))
		}
	}
	given := u.S3Endpoint + u.S3Bucket + u.S3AccessKey + u.S3SecretKey
	if u.Backend != BackendS3 && given == "" {
		return errors.Join(errs...)
	}
	for _, s := range []struct{ variable, value string }{
		{"WAYPOST_S3_ENDPOINT", u.S3Endpoint}, {"WAYPOST_S3_BUCKET", u.S3Bucket},
		{"WAYPOST_S3_ACCESS_KEY", u.S3AccessKey}, {"WAYPOST_S3_SECRET_KEY", u.S3SecretKey},
	} {
		if s.value == "" {
			errs = append(errs, fmt.Errorf("%s is not set: an S3-compatible server needs WAYPOST_S3_ENDPOINT, _BUCKET, _ACCESS_KEY and _SECRET_KEY", s.variable))
		}
	}
	if u.S3Bucket != "" && !bucketForm.MatchString(u.S3Bucket) {
		errs = append(errs, errors.New("WAYPOST_S3_BUCKET is not a bucket's name: 3 to 63 small letters, digits, dots and hyphens"))
	}
	e, err := url.Parse(u.S3Endpoint)
	if u.S3Endpoint != "" && (err != nil || e.Host == "" || e.Scheme != "https" && e.Scheme != "http" ||
		e.User != nil || e.RawQuery != "" || e.Fragment != "" || e.Path != "" && e.Path != "/") {
		errs = append(errs, errors.New("WAYPOST_S3_ENDPOINT must be an http(s) URL of a host alone, such as https://s3.example.com; the bucket is WAYPOST_S3_BUCKET"))
	}
	return errors.Join(errs...)
}

// serveErrors lists what serve can't work with.
func (u Uploads) serveErrors() []string {
	if u.Dir != "" && !filepath.IsAbs(u.Dir) {
		return []string{"WAYPOST_UPLOAD_DIR must be an absolute path: the working directory of a service is easily another one after a restart"}
	}
	return nil
}
