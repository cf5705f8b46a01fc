//go:build external

package e2e_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
	"github.com/waypost/waypost/internal/blob/s3test"
)

func TestEveryUploadThatWasAnsweredIsReadableThoughServiceDatabaseAndS3ServerAreKilled(t *testing.T) {
	s3 := s3test.Start(t)
	s3.Bucket("files")
	uploadsSurvive(t, filepath.Join(s3.Dir, "files"), s3.Environment("files"), func() {
		s3.Kill()
		s3.Restart()
	})
}

func TestWrongCredentialsOfTheStorageAreSaidAtTheStartAndLeaveTheRestWorking(t *testing.T) {
	s3 := s3test.Start(t)
	s3.Bucket("files")
	url := dbtest.NewURL(t).App
	p := startServe(t, url, append(s3.Environment("files"), "WAYPOST_S3_SECRET_KEY=another secret")...)
	p.waitFor(t, "line in the log", func() bool { return strings.Contains(p.stderr.String(), "the storage of files does not work") })
	var ready struct{ Checks map[string]string }
	a := outside.Do(t, "GET", p.url+"/readyz", "")
	if a.Into(t, &ready); a.Status != http.StatusOK || ready.Checks["storage"] != "failed" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	token := admin(t, p, url)
	body, header := outside.Form("text/plain", "Notes")
	a = outside.Do(t, "POST", p.url+"/api/uploads", string(body), append(header, "Authorization", "Bearer "+token)...)
	if a.Status != http.StatusServiceUnavailable || a.ErrorCode() != "storage_unavailable" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := outside.Do(t, "GET", p.url+"/api/uploads", "", "Authorization", "Bearer "+token); a.Status != http.StatusOK {
		t.Errorf("the list: %d %s", a.Status, a.Body)
	}
}
