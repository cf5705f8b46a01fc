package security

import (
	"slices"
	"strings"
)

// database is about the roles that the service signs in with.
func (f found) database() []Check {
	list := []Check{
		well("Database role", "The service signs in as "+f.user+", who doesn't own the tables: it can't change the audit log."),
		well("Console's role", "The console of the database page is off."),
	}
	if f.owns {
		list[0] = warn(list[0].Name, "The service signs in as "+f.user+", who owns the tables and could silence the audit log.",
			"Let DATABASE_URL sign in as waypost_app, and give the owner as WAYPOST_DATABASE_OWNER_URL for migrations (docs/operations.md, Roles).", "")
	}
	switch {
	case f.powerful:
		list[1] = warn(list[1].Name, "The role waypost_viewer may do more than look: it has an attribute, or is a member of another role.",
			"Run waypost migrate up as the owner, and take away what that leaves: ALTER ROLE waypost_viewer NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS.", "")
	case f.Viewer:
		list[1].Sentence = "The console of the database page signs in as waypost_viewer, who sees no secret and can write nothing."
	}
	return list
}

// auditLog is about the chain and its checkpoints.
func (f found) auditLog() []Check {
	return []Check{f.chain(), f.checkpoints(), f.checkpointFile()}
}

func (f found) chain() Check {
	const name, href = "Audit chain", AtChain
	late := []string{"recent", "whole"}
	for _, v := range f.verified {
		if v.FirstBad != nil {
			return warn(name, "The audit log is broken: "+v.FirstBad.Reason+".", "docs/audit.md says what to do.", href)
		}
		if age := f.now.Sub(v.At); v.Kind == "recent" && age < recentAfter || v.Kind == "whole" && age < wholeAfter {
			late = slices.DeleteFunc(late, func(kind string) bool { return kind == v.Kind })
		}
	}
	if len(late) > 0 {
		return warn(name, "The "+strings.Join(late, " and the ")+" verification of the audit log is late.", "See why audit.verify_recent or audit.verify_whole does not run.", AtTasks)
	}
	return well(name, "The newest entries and the whole log were verified, and hold.")
}

func (f found) checkpoints() Check {
	const name = "Audit checkpoints"
	switch {
	case f.facts.AuditSeq > f.facts.CheckpointSize && f.now.Sub(f.facts.CheckpointAt) > checkpointAfter:
		return warn(name, plural(f.facts.AuditSeq-f.facts.CheckpointSize, "entry is", "entries are")+" under no signed checkpoint, and the latest is late.", "Look for audit in the service's log; every server signs.", AtCheckpoints)
	case f.facts.CheckpointSize == 0:
		return well(name, "There is nothing to sign yet.")
	}
	return well(name, "A signed checkpoint is over the first "+plural(f.facts.CheckpointSize, "entry", "entries")+".")
}

func (f found) checkpointFile() Check {
	const name = "Checkpoints outside the database"
	if f.CheckpointFile {
		return well(name, "Each checkpoint is appended to WAYPOST_AUDIT_CHECKPOINT_FILE. It proves something only where the database's owner can't write.")
	}
	return warn(name, "Checkpoints are kept in the database and its log lines alone: who owns both could cut the audit log's end unseen.", "Set WAYPOST_AUDIT_CHECKPOINT_FILE to a file on other storage, or keep the log elsewhere.", "")
}

// webhooks is about providers whose deliveries are refused.
func (f found) webhooks() []Check {
	const secrets, refused = "Webhook secrets", "Refused webhooks"
	var missing, all []string
	for _, p := range f.Providers {
		late, kept := f.refusedOf(p.Name)
		switch {
		case !p.HasSecret && kept > 0:
			missing = append(missing, p.Name+" ("+p.SecretEnv+")")
		case p.HasSecret && late > 0 && !slices.Contains(f.delivering, p.Name):
			all = append(all, p.Name)
		}
	}
	list := []Check{well(secrets, "Every provider that sends something has a secret."), well(refused, "No provider has had everything refused in the last 24 hours.")}
	if len(missing) > 0 {
		list[0] = warn(secrets, "Deliveries come from a provider without a secret, and are refused: "+strings.Join(missing, ", ")+".", "Set the variable to the secret that the provider signs with.", AtRejected)
	}
	if len(all) > 0 {
		list[1] = warn(refused, "Everything that came in the last 24 hours was refused: "+strings.Join(all, ", ")+".", "If the provider sent it, compare the secret here with the one there; the reason is beside each refused delivery.", AtRejected)
	}
	return list
}

// refusedOf is how many deliveries of a provider were refused of late, and are kept.
func (f found) refusedOf(provider string) (late, kept int64) {
	for _, w := range f.state.Webhooks {
		if w.Provider == provider {
			late, kept = late+w.OfLate, kept+w.Kept
		}
	}
	return late, kept
}

// operation is about mail and what belongs to development.
func (f found) operation() []Check {
	return []Check{f.mail(), f.development(), f.debugging()}
}

func (f found) mail() Check {
	const name = "Mail"
	switch {
	case f.MailDriver == "none":
		return warn(name, "No mail is sent: nobody can reset a password or is told of a sign-in from a new place, and no alert arrives.", "Set WAYPOST_SMTP_HOST and WAYPOST_MAIL_FROM.", AtMails)
	case f.MailDriver == "log":
		return warn(name, "Mails are lines in the log, and reach nobody.", "Set WAYPOST_SMTP_HOST and WAYPOST_MAIL_FROM.", AtMails)
	case f.MailTLS != "mandatory" && !isLoopback(f.MailHost):
		return warn(name, "Mails, with the secret links in them, may travel unencrypted.", "Set WAYPOST_SMTP_TLS=mandatory.", AtMails)
	}
	return well(name, "Mails go to the mail server over TLS, or stay on this machine until then.")
}

func (f found) development() Check {
	const name = "Development data"
	if f.facts.DevSince == nil {
		return well(name, "No waypost dev has worked on this database.")
	}
	return warn(name, "waypost dev has worked on this database since "+f.facts.DevSince.UTC().Format("2 January 2006")+": its administrator, sites and keys are made up, and written to its dev.env.",
		"Serve the public from a database of its own; waypost migrate up makes one.", "")
}

func (f found) debugging() Check {
	const name = "Settings for development"
	if len(f.Debug) == 0 {
		return well(name, "No setting is one for development.")
	}
	return warn(name, "These are for development: "+strings.Join(f.Debug, ", ")+".", "Take them out of the environment.", "")
}
