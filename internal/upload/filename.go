package upload

import (
	"path"
	"strings"
	"unicode/utf8"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/text"
)

// MaxFilename is the length of a name in characters.
const MaxFilename = 255

// unnamed is what a file is called whose name has nothing left.
const unnamed = "file"

// maxExtension is how much of a long name's end is kept, in characters with the dot.
const maxExtension = 20

// CleanFilename makes a sender's name one that can be shown and offered: its last path
// element, without control characters, marks of direction and invisible spaces, 1 to
// MaxFilename characters. A longer one keeps its extension. Nothing is ever stored
// under it.
func CleanFilename(sent string) string {
	name := text.MakeStorable(sent, "\uFFFD")
	if i := strings.LastIndexAny(name, `/\`); i >= 0 {
		name = name[i+1:]
	}
	name = strings.TrimSpace(strings.Map(func(r rune) rune {
		if !text.IsLine(string(r)) {
			return -1
		}
		return r
	}, name))
	if strings.Trim(name, ". ") == "" {
		return unnamed
	}
	if excess := utf8.RuneCountInString(name) - MaxFilename; excess > 0 {
		extension := path.Ext(name)
		if utf8.RuneCountInString(extension) > maxExtension {
			extension = ""
		}
		runes := []rune(strings.TrimSuffix(name, extension))
		name = strings.TrimSpace(string(runes[:len(runes)-excess])) + extension
	}
	return name
}

// checkFilename judges a name that somebody chose, instead of cleaning it, and returns it
// without white space around it.
func checkFilename(name string) (string, error) {
	name = text.Trim(name)
	problem := ""
	switch {
	case !text.Within(name, 1, MaxFilename):
		problem = "Needs 1 to 255 characters."
	case !text.IsLine(name):
		problem = text.LineRule
	case strings.ContainsAny(name, `/\`), strings.Trim(name, ". ") == "":
		problem = "Must be a name, without a path."
	default:
		return name, nil
	}
	return "", fault.Validation(map[string]string{"filename": problem})
}
