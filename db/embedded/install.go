package embedded

import "strings"

// installCommand is the one command that installs a PostgreSQL server on a
// system, where osRelease is the text of its /etc/os-release (os-release(5)).
func installCommand(goos, osRelease string, root bool) string {
	sudo := "sudo "
	if root {
		sudo = ""
	}
	switch goos {
	case "darwin":
		return "brew install postgresql@17"
	case "freebsd":
		return sudo + "pkg install -y postgresql17-server"
	}
	for _, id := range distributions(osRelease) {
		switch id {
		case "debian", "ubuntu":
			return sudo + "apt-get install -y postgresql"
		case "fedora", "rhel", "centos":
			return sudo + "dnf install -y postgresql-server"
		case "alpine":
			return sudo + "apk add postgresql"
		case "arch":
			return sudo + "pacman -S --noconfirm postgresql"
		case "suse", "opensuse":
			return sudo + "zypper install -y postgresql-server"
		}
	}
	return sudo + "apt-get install -y postgresql   (or your system's package of the PostgreSQL server)"
}

// distributions lists the system's own identifier and those it says it is like.
func distributions(osRelease string) []string {
	var own, like []string
	for line := range strings.Lines(osRelease) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		value = strings.Trim(value, `"'`)
		switch name {
		case "ID":
			own = append(own, value)
		case "ID_LIKE":
			like = strings.Fields(value)
		}
	}
	return append(own, like...)
}
