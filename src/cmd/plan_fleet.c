#include "cmd/plan_fleet.h"

#include "cmd/outcome.h"
#include "lab/plan/fleet_report.h"
#include "lab/report/page.h"
#include "lab/scenario/allocate.h"

#include <stdlib.h>

static enum tt_err print(const struct tt_fleet_report *report, bool json, const char *html,
                         struct tt_error *why) {
    enum tt_err err = TT_OK;
    if (html)
        err = tt_page_write("fleet", "Fleet plan", tt_fleet_report_json(report), html, why);
    if (err)
        return err;
    if (json) {
        tt_outcome_print_json(tt_fleet_report_json(report));
    } else {
        struct tt_text text;
        tt_text_init(&text);
        tt_fleet_report_put(report, &text);
        tt_outcome_print_text(&text);
    }
    return TT_OK;
}

int tt_plan_fleet(const char *path, bool json, const char *html) {
    const struct tt_fleet_change none = {0};
    struct tt_fleet_file *file;
    struct tt_error why;
    enum tt_err err = tt_fleet_file_open(path, &file, &why);
    if (err)
        return tt_outcome_print_error("plan", err, &why);
    struct tt_fleet_plan *plan = tt_allocate(1, sizeof(*plan));
    struct tt_fleet_what_if *what_ifs = tt_allocate(TT_FLEET_WHAT_IFS, sizeof(*what_ifs));
    err = tt_fleet_plan_make(file, &none, plan, &why);
    if (!err)
        err = tt_fleet_plan_check(file, plan, &why);
    if (!err) {
        struct tt_fleet_report report = {.file = file,
                                         .plan = plan,
                                         .what_ifs = what_ifs,
                                         .what_if_count = tt_fleet_what_ifs(file, what_ifs)};
        err = print(&report, json, html, &why);
    }
    free(what_ifs);
    free(plan);
    tt_fleet_file_close(file);
    return err ? tt_outcome_print_error("plan", err, &why) : EXIT_DONE;
}
