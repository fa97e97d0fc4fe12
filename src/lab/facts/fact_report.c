#include "lab/facts/fact_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CELL = 48 };

/* ---- cells ---- */

static void print_value(char out[CELL], double value, const char *unit) {
    if (isnan(value))
        snprintf(out, CELL, "-");
    else
        snprintf(out, CELL, "%.*f%s%s",
                 value >= 100  ? 0
                 : value >= 10 ? 1
                               : 3,
                 value, unit[0] ? " " : "", unit);
}

static double ratio_of(const struct tt_fact_row *row) {
    return row->fact->trace ? row->ours : row->ours / row->fact->published;
}

static void print_cells(const struct tt_fact_row *row, char published[CELL], char ours[CELL],
                        char ratio[CELL]) {
    const Tutti__Fact *fact = row->fact;
    print_value(published, fact->published > 0 ? fact->published : NAN, fact->unit);
    print_value(ours, row->ours, fact->unit);
    if (fact->trace) {
        size_t lines =
            fact->trace->n_batch + fact->trace->n_dropped + (size_t)fact->trace->nothing_dropped;
        snprintf(published, CELL, "%zu events", lines);
        if (!isnan(row->ours))
            snprintf(ours, CELL, "%.0f equal", row->ours * (double)lines);
    }
    double quotient = tt_fact_is_evidence(fact) ? ratio_of(row) : NAN;
    snprintf(ratio, CELL, isnan(quotient) ? "-" : "%.3f", quotient);
}

static const char *variant_name(const Tutti__Fact *fact) {
    return fact->variant == TUTTI__FACT_VARIANT__OURS ? "ours" : "published rule";
}

/* True if the value follows from profiles, without a run. */
static bool is_formula(Tutti__FactMeasure measure) {
    return measure == TUTTI__FACT_MEASURE__STAGGERED_BOUND ||
           measure == TUTTI__FACT_MEASURE__UNCOORDINATED_BOUND ||
           (measure >= TUTTI__FACT_MEASURE__BEST_WORKERS_MS &&
            measure <= TUTTI__FACT_MEASURE__ONES_OVER_BEST_IN_TURNS);
}

static const char *world_name(const struct tt_fact_table *table, const Tutti__Fact *fact) {
    if (fact->not_attempted[0])
        return "-";
    if (fact->ours && fact->ours->served)
        return "emulated, by processes";
    if (table->world && table->world[0])
        return table->world;
    if (fact->ours && is_formula(fact->ours->measure))
        return "formula";
    if (fact->ours && fact->ours->measure == TUTTI__FACT_MEASURE__SCHEDULER_PER_S)
        return "processor";
    for (size_t i = 0; fact->ours && i < fact->ours->n_set; i++)
        if (strncmp(fact->ours->set[i], "world=", 6) == 0)
            return fact->ours->set[i] + 6;
    return "simulated";
}

static void print_command(const struct tt_fact_table *table, const Tutti__Fact *fact,
                          struct tt_text *out) {
    if (!fact->ours && fact->n_parts == 0)
        return;
    bool has_world = table->world && table->world[0];
    tt_text_printf(out, "tutti reproduce %s%s%s --only %s%s", table->system,
                   has_world ? " --world " : "", has_world ? table->world : "", fact->id,
                   table->quick ? " --quick" : "");
}

/* A value of a run in real time that no paper publishes. */
static bool is_measured(const Tutti__Fact *fact) {
    return !tt_fact_is_evidence(fact) && !fact->holds;
}

static const struct tt_fact_row *find_row(const struct tt_fact_table *table, const char *id) {
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(table->rows[i].fact->id, id) == 0)
            return &table->rows[i];
    return NULL;
}

/* Why the value differs, with what the runs that test the reason gave, if they were run too. */
static void print_reason(const struct tt_fact_table *table, const struct tt_fact_row *row,
                         struct tt_text *out) {
    const Tutti__Fact *fact = row->fact;
    size_t start = out->length;
    tt_text_puts(out, fact->not_attempted);
    tt_text_puts(out, fact->why);
    for (size_t i = 0; i < fact->n_tested_by; i++) {
        const struct tt_fact_row *test = find_row(table, fact->tested_by[i]);
        tt_text_printf(out, "%s%s%s", out->length > start && i == 0 ? " " : "",
                       i == 0 ? "Tested by " : ", ", fact->tested_by[i]);
        if (!test || isnan(test->ours))
            continue;
        char value[CELL];
        print_value(value, test->ours, test->fact->unit);
        tt_text_printf(out, ": %s", value);
    }
    if (fact->n_tested_by > 0)
        tt_text_puts(out, ".");
    if (row->note.length)
        tt_text_printf(out, "%s(%s)", out->length > start ? " " : "", tt_text_string(&row->note));
}

static void print_bound(const Tutti__Fact *fact, bool quick, struct tt_text *out) {
    const Tutti__FactHolds *holds = fact->holds;
    double golden = quick ? holds->golden_quick : holds->golden;
    size_t start = out->length;
    if (fact->trace)
        tt_text_puts(out, "all equal");
    if (golden > 0)
        tt_text_printf(out, "golden %.6g +-2 %%", golden);
    if (holds->expected > 0)
        tt_text_printf(out, "%s%.6g +-%.3g %%", out->length > start ? ", " : "", holds->expected,
                       100 * holds->tolerance);
    if (holds->at_least > 0)
        tt_text_printf(out, "%s>= %.6g", out->length > start ? ", " : "", holds->at_least);
    if (holds->at_most > 0)
        tt_text_printf(out, "%s<= %.6g", out->length > start ? ", " : "", holds->at_most);
}

static const char *status_name(const struct tt_fact_table *table, const struct tt_fact_row *row) {
    if (isnan(row->ours))
        return "not run";
    switch (tt_fact_judge(row->fact, row->ours, table->quick)) {
    case TT_FACT_HOLDS: return "holds";
    case TT_FACT_FAILS: return "FAILS";
    case TT_FACT_UNJUDGED: break;
    }
    return "not judged";
}

/* ---- counts ---- */

void tt_fact_counts_add(struct tt_fact_counts *self, const struct tt_fact_table *table) {
    for (size_t i = 0; i < table->count; i++) {
        const struct tt_fact_row *row = &table->rows[i];
        const Tutti__Fact *fact = row->fact;
        bool runs = !row->left_out && (fact->ours || fact->n_parts > 0);
        self->not_run += runs && isnan(row->ours);
        if (tt_fact_is_evidence(fact)) {
            self->published++;
            self->classes[tt_fact_class_of(fact, row->ours)]++;
        }
        self->measured += is_measured(fact) && !isnan(row->ours);
        if (!fact->holds || isnan(row->ours))
            continue;
        enum tt_fact_verdict verdict = tt_fact_judge(fact, row->ours, table->quick);
        self->hold += verdict == TT_FACT_HOLDS;
        self->fail += verdict == TT_FACT_FAILS;
        self->regression += verdict != TT_FACT_UNJUDGED;
    }
}

void tt_fact_counts_print(const struct tt_fact_counts *self, struct tt_text *out) {
    if (self->measured > 0)
        tt_text_printf(out, "measured %d, without a published value\n", self->measured);
    tt_text_printf(out, "published %d: ", self->published);
    for (int32_t c = 0; c < TT_FACT_CLASSES; c++)
        tt_text_printf(out, "%s%d %s", c ? ", " : "", self->classes[c],
                       tt_fact_class_name((enum tt_fact_class)c));
    tt_text_printf(out, "\nregression %d: %d hold, %d fail\n", self->regression, self->hold,
                   self->fail);
}

json_t *tt_fact_counts_json(const struct tt_fact_counts *self) {
    return json_pack("{s:{s:i,s:i,s:i,s:i,s:i,s:i,s:i},s:{s:i,s:i,s:i}}", "published", "count",
                     self->published, "within_5_percent", self->classes[TT_FACT_WITHIN_5],
                     "within_10_percent", self->classes[TT_FACT_WITHIN_10], "within_25_percent",
                     self->classes[TT_FACT_WITHIN_25], "better", self->classes[TT_FACT_BETTER],
                     "worse", self->classes[TT_FACT_WORSE], "not_attempted",
                     self->classes[TT_FACT_NOT_ATTEMPTED], "regression", "count", self->regression,
                     "hold", self->hold, "fail", self->fail);
}

/* ---- text ---- */

static int widest(const struct tt_fact_table *table) {
    int width = 4;
    for (size_t i = 0; i < table->count; i++) {
        int length = (int)strlen(table->rows[i].fact->what);
        width = length > width ? length : width;
    }
    return width;
}

static void text_row(const struct tt_fact_table *table, const struct tt_fact_row *row, int width,
                     struct tt_text *out) {
    const Tutti__Fact *fact = row->fact;
    char published[CELL], ours[CELL], ratio[CELL];
    print_cells(row, published, ours, ratio);
    tt_text_printf(out, "%-*s  %14s  %14s  %6s  %s\n", width, fact->what, published, ours, ratio,
                   tt_fact_class_name(tt_fact_class_of(fact, row->ours)));
    tt_text_printf(out, "    %s; %s; %s\n    ", fact->source, variant_name(fact),
                   world_name(table, fact));
    size_t start = out->length;
    print_reason(table, row, out);
    tt_text_puts(out, out->length > start ? "\n    " : "");
    print_command(table, fact, out);
    tt_text_puts(out, "\n");
}

static bool has_measured(const struct tt_fact_table *table) {
    for (size_t i = 0; i < table->count; i++)
        if (is_measured(table->rows[i].fact))
            return true;
    return false;
}

static void text_measured(const struct tt_fact_table *table, int width, struct tt_text *out) {
    tt_text_printf(out, "\n%-*s  %14s\n", width, "measured", "ours");
    for (size_t i = 0; i < table->count; i++) {
        const struct tt_fact_row *row = &table->rows[i];
        if (!is_measured(row->fact))
            continue;
        char ours[CELL];
        print_value(ours, row->ours, row->fact->unit);
        tt_text_printf(out, "%-*s  %14s\n    %s; %s; %s\n    ", width, row->fact->what, ours,
                       row->fact->source, variant_name(row->fact), world_name(table, row->fact));
        size_t start = out->length;
        print_reason(table, row, out);
        tt_text_puts(out, out->length > start ? "\n    " : "");
        print_command(table, row->fact, out);
        tt_text_puts(out, "\n");
    }
}

void tt_fact_report_text(const struct tt_fact_table *table, struct tt_text *out) {
    int width = widest(table);
    tt_text_printf(out, "%-*s  %14s  %14s  %6s  %s\n", width, "published", "published", "ours",
                   "ratio", "class");
    for (size_t i = 0; i < table->count; i++)
        if (tt_fact_is_evidence(table->rows[i].fact))
            text_row(table, &table->rows[i], width, out);
    if (has_measured(table))
        text_measured(table, width, out);
    tt_text_printf(out, "\n%-*s  %30s  %14s  %s\n", width, "regression", "bound", "ours", "");
    for (size_t i = 0; i < table->count; i++) {
        const struct tt_fact_row *row = &table->rows[i];
        if (!row->fact->holds || row->left_out)
            continue;
        char published[CELL], ours[CELL], ratio[CELL];
        struct tt_text bound;
        tt_text_init(&bound);
        print_cells(row, published, ours, ratio);
        print_bound(row->fact, table->quick, &bound);
        tt_text_printf(out, "%-*s  %30s  %14s  %s\n    ", width, row->fact->what,
                       tt_text_string(&bound), ours, status_name(table, row));
        print_command(table, row->fact, out);
        tt_text_printf(out, "%s%s\n", row->note.length ? "; " : "", tt_text_string(&row->note));
        tt_text_fini(&bound);
    }
}

/* ---- Markdown ---- */

static void markdown_command(const struct tt_fact_table *table, const Tutti__Fact *fact,
                             struct tt_text *out) {
    size_t start = out->length;
    tt_text_puts(out, "`");
    print_command(table, fact, out);
    if (out->length == start + 1)
        tt_text_puts(out, "-");
    tt_text_puts(out, "`");
}

static void markdown_published(const struct tt_fact_table *table, struct tt_text *out) {
    tt_text_puts(out, "| published | source | variant | world | published | ours | ratio | class | "
                      "why, and notes | command |\n|---|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < table->count; i++) {
        const struct tt_fact_row *row = &table->rows[i];
        if (!tt_fact_is_evidence(row->fact))
            continue;
        char published[CELL], ours[CELL], ratio[CELL];
        print_cells(row, published, ours, ratio);
        tt_text_printf(out, "| %s | %s | %s | %s | %s | %s | %s | %s | ", row->fact->what,
                       row->fact->source, variant_name(row->fact), world_name(table, row->fact),
                       published, ours, ratio,
                       tt_fact_class_name(tt_fact_class_of(row->fact, row->ours)));
        print_reason(table, row, out);
        tt_text_puts(out, " | ");
        markdown_command(table, row->fact, out);
        tt_text_puts(out, " |\n");
    }
}

static void markdown_measured(const struct tt_fact_table *table, struct tt_text *out) {
    tt_text_puts(out,
                 "\n| measured | source | variant | world | ours | why, and notes | command |\n"
                 "|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < table->count; i++) {
        const struct tt_fact_row *row = &table->rows[i];
        if (!is_measured(row->fact))
            continue;
        char ours[CELL];
        print_value(ours, row->ours, row->fact->unit);
        tt_text_printf(out, "| %s | %s | %s | %s | %s | ", row->fact->what, row->fact->source,
                       variant_name(row->fact), world_name(table, row->fact), ours);
        print_reason(table, row, out);
        tt_text_puts(out, " | ");
        markdown_command(table, row->fact, out);
        tt_text_puts(out, " |\n");
    }
}

void tt_fact_report_markdown(const struct tt_fact_table *table, struct tt_text *out) {
    markdown_published(table, out);
    if (has_measured(table))
        markdown_measured(table, out);
    tt_text_puts(out, "\n| regression | source | variant | bound | ours | status | why | command "
                      "|\n|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < table->count; i++) {
        const struct tt_fact_row *row = &table->rows[i];
        if (!row->fact->holds || row->left_out)
            continue;
        char published[CELL], ours[CELL], ratio[CELL];
        print_cells(row, published, ours, ratio);
        tt_text_printf(out, "| %s | %s | %s | ", row->fact->what, row->fact->source,
                       variant_name(row->fact));
        print_bound(row->fact, table->quick, out);
        tt_text_printf(out, " | %s | %s | %s | ", ours, status_name(table, row),
                       tt_fact_is_evidence(row->fact) ? "" : row->fact->why);
        markdown_command(table, row->fact, out);
        tt_text_puts(out, " |\n");
    }
}

/* ---- JSON ---- */

static json_t *number_or_null(double value) {
    return isnan(value) ? json_null() : json_real(value);
}

/* What both kinds of rows say. */
static json_t *common_json(const struct tt_fact_table *table, const struct tt_fact_row *row) {
    const Tutti__Fact *fact = row->fact;
    struct tt_text command;
    tt_text_init(&command);
    print_command(table, fact, &command);
    json_t *out =
        json_pack("{s:s,s:s,s:s,s:s,s:o,s:s,s:s,s:s}", "id", fact->id, "what", fact->what, "source",
                  fact->source, "unit", fact->unit, "ours", number_or_null(row->ours), "note",
                  tt_text_string(&row->note), "variant",
                  fact->variant == TUTTI__FACT_VARIANT__OURS ? "ours" : "published_rule", "command",
                  tt_text_string(&command));
    tt_text_fini(&command);
    return out;
}

static json_t *published_json(const struct tt_fact_table *table, const struct tt_fact_row *row) {
    const Tutti__Fact *fact = row->fact;
    json_t *out = common_json(table, row), *tested_by = json_array();
    for (size_t i = 0; i < fact->n_tested_by; i++)
        json_array_append_new(tested_by, json_string(fact->tested_by[i]));
    json_t *own = json_pack(
        "{s:o,s:o,s:s,s:s,s:s,s:o}", "published", number_or_null(fact->trace ? 1 : fact->published),
        "ratio", number_or_null(ratio_of(row)), "class",
        tt_fact_class_name(tt_fact_class_of(fact, row->ours)), "world", world_name(table, fact),
        "why", fact->not_attempted[0] ? fact->not_attempted : fact->why, "tested_by", tested_by);
    json_object_update(out, own);
    json_decref(own);
    return out;
}

static json_t *measured_json(const struct tt_fact_table *table, const struct tt_fact_row *row) {
    json_t *out = common_json(table, row);
    json_object_set_new(out, "world", json_string(world_name(table, row->fact)));
    json_object_set_new(out, "why", json_string(row->fact->why));
    return out;
}

static json_t *regression_json(const struct tt_fact_table *table, const struct tt_fact_row *row) {
    json_t *out = common_json(table, row);
    struct tt_text bound;
    tt_text_init(&bound);
    print_bound(row->fact, table->quick, &bound);
    json_object_set_new(out, "bound", json_string(tt_text_string(&bound)));
    json_object_set_new(out, "status", json_string(status_name(table, row)));
    tt_text_fini(&bound);
    return out;
}

json_t *tt_fact_report_json(const struct tt_fact_table *table) {
    json_t *published = json_array(), *regression = json_array(), *measured = json_array();
    for (size_t i = 0; i < table->count; i++) {
        const struct tt_fact_row *row = &table->rows[i];
        if (tt_fact_is_evidence(row->fact))
            json_array_append_new(published, published_json(table, row));
        if (row->fact->holds && !row->left_out)
            json_array_append_new(regression, regression_json(table, row));
        if (is_measured(row->fact))
            json_array_append_new(measured, measured_json(table, row));
    }
    struct tt_fact_counts counts = {0};
    tt_fact_counts_add(&counts, table);
    json_t *out = json_pack("{s:s,s:s,s:b,s:o,s:o,s:o}", "system", table->system, "title",
                            table->title, "quick", table->quick, "published", published,
                            "regression", regression, "counts", tt_fact_counts_json(&counts));
    if (json_array_size(measured) > 0)
        json_object_set(out, "measured", measured);
    if (table->world && table->world[0])
        json_object_set_new(out, "world", json_string(table->world));
    json_decref(measured);
    return out;
}
