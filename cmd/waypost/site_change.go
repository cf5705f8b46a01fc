package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/waypost/waypost/internal/app"
	"github.com/waypost/waypost/internal/site"
)

func newSiteUpdate() *cobra.Command {
	var name, domain, timezone, retention string
	cmd := onSite(&cobra.Command{
		Use:   "update SITE [--name NAME] [--domain HOST] [--timezone ZONE] [--retention-months N|instance]",
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
		if cmd.Flags().Changed("retention-months") {
			var months *int
			if retention != "instance" {
				n, err := strconv.Atoi(retention)
				if err != nil {
					return &usageError{fmt.Errorf("--retention-months %q is neither a number nor instance", retention)}
				}
				months = &n
			}
			c.RetentionMonths = &months
		}
		changed, err := s.Sites.Update(ctx, ids[0], c)
		if err != nil {
			return err
		}
		kept := "as the instance does"
		if changed.RetentionMonths != nil {
			kept = fmt.Sprintf("%d months before the current one (0: for ever)", *changed.RetentionMonths)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "name      %s\ndomain    %s\ntimezone  %s\nvisits    %s\n", changed.Name, changed.Domain, changed.WantedZone(), kept)
		return nil
	})
	cmd.Flags().StringVar(&name, "name", "", "the site's name for people")
	cmd.Flags().StringVar(&domain, "domain", "", "host name whose visits count; its subdomains count too")
	cmd.Flags().StringVar(&timezone, "timezone", "", "IANA time zone in which its days begin and end")
	cmd.Flags().StringVar(&retention, "retention-months", "", "for how many months before the current one single visits are kept: a number, 0 for ever, or instance")
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
	return lists(onSite(&cobra.Command{
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
		list := newListing(cmd, "day", "reason", "hits")
		for _, d := range drops {
			list.add(d.Day.Format(time.DateOnly), d.Reason, d.Count)
		}
		return list.print()
	}))
}
