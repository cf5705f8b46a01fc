package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/waypost/waypost/internal/app"
)

func newWebhook() *cobra.Command {
	return group("webhook", "Try the webhook receiver", "", newWebhookSend(), newWebhookCheck())
}

func newWebhookCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [--config FILE]",
		Short: "Check the configuration file, and show each provider",
		Long: `Reads the file named by WAYPOST_CONFIG as dev and serve do, without a database, and
shows the providers: how they sign, and which variable still needs a value. The exit
code is 1 when the file would stop the start.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := readConfig(cmd)
			if err != nil {
				return err
			}
			list, err := app.CheckConfig(c, extensions(), os.Getenv)
			if err != nil {
				return err
			}
			l := newListing(cmd, "provider", "preset", "verifier", "extractor", "challenge", "secret", "state")
			for _, p := range list {
				l.add(p.Name, cmp.Or(p.Preset, "-"), p.Verifier, p.Extractor, cmp.Or(p.Challenge, "-"), p.SecretEnv, p.State())
			}
			return l.print()
		},
	}
	cmd.Flags().String("config", "", "YAML file that declares webhook providers [WAYPOST_CONFIG]")
	return lists(cmd)
}

func newWebhookSend() *cobra.Command {
	var o app.SendOptions
	var data string
	cmd := takesSettings(&cobra.Command{
		Use:   "send --provider NAME --type TYPE [--id ID] [--data FILE]",
		Short: "Sign a test delivery as a provider would, and post it",
		Long: `Works for every registered provider: payment, codehost, and those that the file
named by WAYPOST_CONFIG declares. The secret comes from the provider's variable
(such as PAYMENT_WEBHOOK_SECRET) or, if that is not set, from dev.env in the data
directory. The service's URL comes from WAYPOST_URL or dev.env in the same way.
The exit code is 0 when the answer is 2xx.`,
		Example: `  waypost webhook send --provider payment --type payment.succeeded
  echo '{"ref":"main"}' | waypost webhook send --provider codehost --type push --data -`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := readConfig(cmd)
			if err != nil {
				return err
			}
			if o.Body, err = readData(cmd, data); err != nil {
				return err
			}
			o.LookupEnv, o.Now, o.Extensions = os.Getenv, time.Now(), extensions()
			ctx, cancel := context.WithTimeout(cmd.Context(), 30*time.Second)
			defer cancel()
			answer, err := app.SendWebhook(ctx, c, o)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s\n%s\n", answer.Status, answer.Body)
			if answer.Code/100 != 2 {
				return errors.New("the delivery was refused")
			}
			return nil
		},
	}, "database")
	cmd.Flags().String("config", "", "YAML file that declares webhook providers [WAYPOST_CONFIG]")
	cmd.Flags().StringVar(&o.URL, "url", "", "the service's URL; default WAYPOST_URL, else dev's")
	cmd.Flags().StringVar(&o.Provider, "provider", "", "a registered provider")
	cmd.Flags().StringVar(&o.Type, "type", "", "the event's type")
	cmd.Flags().StringVar(&o.ID, "id", "", "the event's id; generated when empty")
	cmd.Flags().StringVar(&data, "data", "", "file with the body, - for standard input; by default a small body is generated")
	return required(cmd, "provider", "type")
}

// readData returns nil when there is no data flag.
func readData(cmd *cobra.Command, name string) ([]byte, error) {
	switch name {
	case "":
		return nil, nil
	case "-":
		return io.ReadAll(cmd.InOrStdin())
	}
	return os.ReadFile(name)
}
