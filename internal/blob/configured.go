package blob

import (
	"fmt"

	"github.com/waypost/waypost/internal/config"
)

// noStore is what operators read of a service without a store.
const noStore = "no storage for files is set, so uploads are answered with 503: set WAYPOST_UPLOAD_DIR to a directory that is kept and backed up, or WAYPOST_UPLOAD_BACKEND=s3"

// Configured opens every store that is set, by its name, and says which one takes
// new objects: None, if its backend isn't set. So the objects of a former backend
// stay readable. An error is a start-up error; whether a server answers, Check says.
func Configured(u config.Uploads) (Store, map[string]Store, error) {
	stores := make(map[string]Store)
	if u.Dir != "" {
		l, err := NewLocal(LocalOptions{Dir: u.Dir})
		if err != nil {
			return nil, nil, fmt.Errorf("WAYPOST_UPLOAD_DIR: %w", err)
		}
		stores[l.Name()] = l
	}
	if u.HasS3() {
		s, err := NewS3(S3Options{
			Endpoint: u.S3Endpoint, Region: u.S3Region, Bucket: u.S3Bucket,
			AccessKey: u.S3AccessKey, SecretKey: u.S3SecretKey, PathStyle: u.S3PathStyle,
		})
		if err != nil {
			return nil, nil, err
		}
		stores[s.Name()] = s
	}
	if s, ok := stores[u.Backend]; ok {
		return s, stores, nil
	}
	return None{Reason: noStore}, stores, nil
}
