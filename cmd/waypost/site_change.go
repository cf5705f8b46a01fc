package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/waypost/waypost/internal/app"
	"github.com/waypost/waypost/internal/site"
)

func newSiteUpdate() *cobra.Command {
	var name, domain, timezone string
	cmd := onSite(&cobra.Command{
		Use:   "update SITE [--name NAME] [--domain HOST] [--timezone ZONE]",
		Short: "Change a site; a new time zone takes effect with the site's next day",
	}, 1, func(ctx context.Context, cmd *cobra.Command, s *app.Services, ids []uuid.UUID) error {
		var c site.Change
		for flag, field := range map[string]struct {
			to   **string
			text *string
		}{"name": {&c.Name, &name}, "domain": {&c.Domain, &domain}, "timezone": {&c.Timezone, &timezone}} {
			if cmd.Flags().Changed(flag) {
				*field.to = field.text
			}
		}
		changed, err := s.Sites.Update(ctx, ids[0], c)
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "name      %s\ndomain    %s\ntimezone  %s\n", changed.Name, changed.Domain, changed.WantedZone())
		return nil
	})
	cmd.Flags().StringVar(&name, "name", "", "the site's name for people")
	cmd.Flags().StringVar(&domain, "domain", "", "host name whose visits count; its subdomains count too")
	cmd.Flags().StringVar(&timezone, "timezone", "", "IANA time zone in which its days begin and end")
	return cmd
}

func newSiteDelete() *cobra.Command {
	var sure bool
	cmd := onSite(&cobra.Command{
		Use:   "delete SITE --yes",
		Short: "Delete a site, its keys and all of its statistics",
		Long: `The site and its keys are gone at once. This command then erases the site's
statistics; if it is interrupted, the jobs of a running server erase the rest.`,
	}, 1, func(ctx context.Context, cmd *cobra.Command, s *app.Services, ids []uuid.UUID) error {
		if !sure {
			return &usageError{fmt.Errorf("this can't be undone: add --yes")}
		}
		if err := s.Eraser.DeleteSite(ctx, ids[0]); err != nil {
			return err
		}
		// A wait of a second asks for another piece; a longer one is for writers that
		// are still under way, which a server's jobs look after.
		for wait := time.Second; wait == time.Second; {
			var err error
			if wait, err = s.Eraser.Erase(ctx, ids[0]); err != nil {
				return err
			}
		}
		fmt.Fprintln(cmd.OutOrStdout(), "The site is deleted and its data erased.")
		return nil
	})
	cmd.Flags().BoolVar(&sure, "yes", false, "yes, erase it for good")
	return cmd
}

func newSiteDrops() *cobra.Command {
	return onSite(&cobra.Command{
		Use:   "drops SITE",
		Short: "Show how many hits were not counted recently, by day and reason",
	}, 1, func(ctx context.Context, cmd *cobra.Command, s *app.Services, ids []uuid.UUID) error {
		if _, err := s.Sites.Find(ctx, ids[0]); err != nil {
			return err
		}
		const rows = 100
		drops, err := s.Stats.ListDrops(ctx, ids[0], nil, rows)
		if err != nil {
			return err
		}
		w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 4, 2, ' ', 0)
		fmt.Fprintln(w, "DAY\tREASON\tHITS")
		for _, d := range drops {
			fmt.Fprintf(w, "%s\t%s\t%d\n", d.Day.Format(time.DateOnly), d.Reason, d.Count)
		}
		return w.Flush()
	})
}
