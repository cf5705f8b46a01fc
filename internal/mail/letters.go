package mail

// letter is what a kind of mail says. It is text, never a template: what people call
// themselves is printed as it is.
type letter struct {
	subject string
	// lead is what happened or what to do, a paragraph each.
	lead []string
	// button is what the link does, and expiry how long; "" where there is no link.
	button, expiry string
	// otherwise is what to do if it was not the reader.
	otherwise string
	// why says why the reader gets this mail.
	why string
}

const (
	whyRequested = "because somebody gave this address to"
	whyAccount   = "because it is about the safety of your account at"
	whyAdmin     = "because you are an administrator of"

	secureAccount = "If it was not you, ask for a new password at once: that ends all sessions. Then tell the operator of this service."
)

// letterOf returns what m says. The Detail is one of our own sentences.
func letterOf(m Message) (letter, bool) {
	l, known := letters[m.Kind]
	if !known {
		return letter{}, false
	}
	if m.Detail != "" {
		l.lead = append([]string{m.Detail}, l.lead...)
	}
	if m.Title != "" {
		l.subject = m.Title
	}
	return l, true
}

// letters are never changed.
var letters = map[Kind]letter{
	VerifyEmail: {
		subject: "Confirm your e-mail address",
		lead:    []string{"Please confirm that this address is yours."},
		button:  "Confirm my address", expiry: "The link works once, for seven days.",
		otherwise: "If you did not open an account, or change its address, ignore this mail: without the link nobody can use your address.", why: whyRequested,
	},
	SetPassword: {
		subject: "Your new account",
		lead:    []string{"An administrator created an account for you. Choose your password to use it."},
		button:  "Choose my password", expiry: "The link works once, for seven days. If it has expired, ask for a new password with this address.",
		otherwise: "If you did not expect an account, ignore this mail.", why: whyRequested,
	},
	ResetPassword: {
		subject: "Choose a new password",
		lead:    []string{"Somebody, hopefully you, asked for a new password for your account."},
		button:  "Choose a new password", expiry: "The link works once, for one hour.",
		otherwise: "If it was not you, ignore this mail: nothing has changed, and only this link can set a new password.", why: whyRequested,
	},
	NewSignIn: {
		subject:   "New sign-in to your account",
		lead:      []string{"Somebody signed in to your account from a device or a network that it was not used from lately."},
		otherwise: secureAccount, why: whyAccount,
	},
	PasswordChanged: {
		subject:   "Your password was changed",
		lead:      []string{"The password of your account was changed, and other sessions were ended."},
		otherwise: "If it was not you, ask for a new password at once and tell the operator of this service.", why: whyAccount,
	},
	EmailChanged: {
		subject:   "Your e-mail address was changed",
		lead:      []string{"The e-mail address of your account was changed. You can't sign in with this address any more."},
		otherwise: "If it was not you, tell the operator of this service at once.", why: whyAccount,
	},
	ConfirmEmail: {
		subject: "Confirm your new e-mail address",
		lead: []string{
			"Somebody who is signed in to an account here, hopefully you, wants to use this address for that account.",
			"Confirm it only if it was you: whoever asked keeps the account.",
		},
		button: "Use this address", expiry: "The link works once, for a day, for as long as you stay signed in where you asked.",
		otherwise: "If it was not you, ignore this mail: nothing has changed.", why: whyRequested,
	},
	UndoEmail: {
		subject: "Your e-mail address was changed",
		lead:    []string{"The e-mail address of your account was changed. You can't sign in with this address any more."},
		button:  "Take the change back", expiry: "The link works once, for seven days. It restores this address, ends all sessions and API tokens, and mails you a link to choose a new password.",
		otherwise: "If it was you, there is nothing to do. If it was not you, use the link at once, and tell the operator of this service.", why: whyAccount,
	},
	EmailInUse: {
		subject: "Your e-mail address has an account already",
		lead: []string{
			"Somebody who is signed in to another account here, hopefully you, wants to use this address for it. That can't be done, because this address belongs to an account already.",
		},
		otherwise: "If it was you, sign in with this address instead, or give that account another one first. If it was not you, ignore this mail: nothing has changed.", why: whyRequested,
	},
	TwoFactorChanged: {
		subject: "Your two-factor settings were changed", otherwise: secureAccount, why: whyAccount,
	},
	TokenCreated: {
		subject:   "A new API token",
		lead:      []string{"Whoever has an API token can use its account, within the token's scopes, until it expires or is revoked."},
		otherwise: "If it was not you who created it, revoke the token, then ask for a new password and tell the operator of this service.", why: whyAccount,
	},
	IdentityChanged: {
		subject: "Your ways to sign in were changed", otherwise: secureAccount, why: whyAccount,
	},
	AlertKind: {
		subject: "Something needs your attention", otherwise: "The log of the service has more about it.", why: whyAdmin,
	},
	Test: {
		subject: "Test mail",
		lead:    []string{"This is a test. If you can read it, this service can send mail."},
		why:     "because an administrator sent a test from",
	},
}
