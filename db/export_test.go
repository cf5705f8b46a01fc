package db

// RightsIn counts the rights that a migration's text gives and takes.
func RightsIn(text string) (int, error) {
	list, err := parseRights(text)
	return len(list), err
}

// SCRAMVerifier is what PostgreSQL stores of a password.
var SCRAMVerifier = scramVerifier
