package app

import (
	"context"
	"strings"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/audit"
	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/seal"
	"github.com/waypost/waypost/internal/security"
	"github.com/waypost/waypost/internal/token"
	"github.com/waypost/waypost/internal/webhook"
)

// openSecurity comes before the accounts, whose sign-ins it counts.
func (s *Services) openSecurity(o Options, registry *webhook.Registry) error {
	settings, err := securitySettings(o)
	if err != nil {
		return err
	}
	s.Security, err = security.New(security.Options{
		DB: o.Areas.Requests, Logger: o.Logger, Limits: account.Limits(),
		Settings: func(context.Context) (security.Settings, error) {
			now := settings
			now.Forwarding = security.Forwarding{Ignored: s.forwarding.Ignored(), Unreadable: s.forwarding.Unreadable()}
			for _, p := range registry.Providers() {
				now.Providers = append(now.Providers, security.Provider{Name: p.Name, SecretEnv: p.SecretEnv, HasSecret: o.LookupSecret(p.SecretEnv) != ""})
			}
			return now, nil
		},
	})
	if err != nil {
		return err
	}
	s.Security.Start()
	s.closers.add("counts of sign-ins", within(historyEnd, s.Security.Stop))
	return nil
}

// securitySettings are those that stay as they are while the process runs.
func securitySettings(o Options) (security.Settings, error) {
	c := o.Config
	list := security.Settings{
		URL: baseURL(c), Addr: c.Addr, WeakSecretKey: c.WeakSecretKey(), PreviousKey: c.SecretKeyPrevious != "",
		AdminSecondFactor: c.Accounts.RequireAdmin2FA,
		MetricsAddr:       c.Telemetry.MetricsAddr, MetricsToken: c.Telemetry.MetricsToken != "",
		MailDriver: mailDriver(o), MailHost: c.Mail.Host, MailTLS: c.Mail.TLS, TrustedProxies: c.TrustedProxies,
		CheckpointFile: c.Audit.CheckpointFile != "", Viewer: c.DatabaseViewerURL != "",
	}
	if c.Docs.DevMode {
		list.Debug = append(list.Debug, "WAYPOST_DOCS_DEV_MODE")
	}
	if strings.EqualFold(c.LogLevel, "debug") {
		list.Debug = append(list.Debug, "WAYPOST_LOG_LEVEL=debug")
	}
	var err error
	for purpose, id := range map[string]*string{
		token.SealPurpose: &list.Keys.Signing, account.SealPurpose: &list.Keys.SecondFactor, mail.SealPurpose: &list.Keys.Mail, audit.SealPurpose: &list.Keys.Audit,
	} {
		if *id, err = keyID(purpose, c.SecretKey); err != nil {
			return list, err
		}
	}
	return list, nil
}

func keyID(purpose, secret string) (string, error) {
	keys, err := seal.New(purpose, []byte(secret), nil)
	if err != nil {
		return "", err
	}
	return keys.KeyID(), nil
}
