package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

func TestTheFilesOfADeletedAccountAreGoneWithTheirBytes(t *testing.T) {
	t.Parallel()
	urls, dir := dbtest.NewURL(t), dbtest.TempDir(t)
	p := startServe(t, urls.App, "WAYPOST_UPLOAD_DIR="+dir)
	token := "Bearer " + admin(t, p, urls.App)
	// Somebody registers, signs in and sends a file.
	account := `{"first_name":"Ada","last_name":"Lovelace","email":"ada@example.com","password":"correct horse battery"}`
	var made struct{ Data struct{ ID int64 } }
	outside.Do(t, "POST", p.url+"/api/auth/register", account, "Content-Type", "application/json").Into(t, &made)
	var login struct {
		Data struct {
			AccessToken string `json:"access_token"`
		}
	}
	outside.Do(t, "POST", p.url+"/api/auth/login", `{"email":"ada@example.com","password":"correct horse battery"}`, "Content-Type", "application/json").Into(t, &login)
	body, header := outside.Form("text/plain", "Notes on the engine.")
	var file struct{ Data struct{ URL, SHA256 string } }
	sent := outside.Do(t, "POST", p.url+"/api/uploads", string(body), append(header, "Authorization", "Bearer "+login.Data.AccessToken)...)
	if sent.Into(t, &file); sent.Status != http.StatusCreated {
		t.Fatalf("%d %s", sent.Status, sent.Body)
	}
	if len(storedFiles(t, dir)) == 0 {
		t.Fatal("the file's bytes are nowhere")
	}
	content := strings.Replace(file.Data.URL, "https://waypost.example", p.url, 1)
	if a := outside.Do(t, "GET", content, "", "Authorization", token); string(a.Body) != "Notes on the engine." {
		t.Fatalf("%d %s", a.Status, a.Body)
	}

	if a := outside.Do(t, "DELETE", fmt.Sprint(p.url, "/api/users/", made.Data.ID), "", "Authorization", token); a.Status != http.StatusNoContent {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	wantError(t, outside.Do(t, "GET", content, "", "Authorization", token), http.StatusNotFound, "not_found")
	if !within(outside.Patience, func() bool { return len(storedFiles(t, dir)) == 0 }) {
		t.Errorf("left: %v", storedFiles(t, dir))
	}
}
