/* tutti reproduce SYSTEM: runs the experiments of a paper and compares the results with it. */
#include "base/clock.h"
#include "cmd/outcome.h"
#include "cmd/verbs.h"
#include "lab/facts/fact_runs.h"
#include "lab/scenario/allocate.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Added to the tolerances with --quick, whose runs are shorter and searches coarser. */
#define QUICK_EXTRA 0.03

struct flags {
    const char *system, *sweeps;
    struct tt_flag_list only;
    int32_t workers;
    bool quick, json, list, markdown;
};

/* ---- the folder of facts ---- */

/* "facts/" in the working directory, or beside or above the program; to be freed. NULL: none. */
static char *facts_folder(void) {
    if (access("facts", R_OK | X_OK) == 0)
        return tt_copy_text("facts/");
    char program[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    if (length <= 0)
        return NULL;
    program[length] = '\0';
    *strrchr(program, '/') = '\0';
    static const char *const places[] = {"facts/", "../facts/", "../share/tutti/facts/"};
    for (size_t i = 0; i < TT_COUNT(places); i++) {
        char *folder = tt_format_text("%s/%s", program, places[i]);
        if (access(folder, R_OK | X_OK) == 0)
            return folder;
        free(folder);
    }
    return NULL;
}

/* The systems that have a file in the folder (may be NULL), each followed by `separator`. */
static void list_systems(const char *folder, const char *separator, struct tt_text *out) {
    DIR *dir = folder ? opendir(folder) : NULL;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        const char *dot = strstr(entry->d_name, ".pbtxt");
        if (dot && !dot[6])
            tt_text_printf(out, "%.*s%s", (int)(dot - entry->d_name), entry->d_name, separator);
    }
    if (dir)
        closedir(dir);
}

static void complete_systems(struct tt_text *out_lines) {
    char *folder = facts_folder();
    list_systems(folder, "\n", out_lines);
    free(folder);
}

static void refuse_unknown(const char *system, const char *folder) {
    struct tt_text known;
    tt_text_init(&known);
    list_systems(folder, ", ", &known);
    if (known.length)
        fprintf(stderr, "tutti reproduce: there are no facts about '%s'; known systems: %.*s\n",
                system, (int)known.length - 2, known.bytes);
    else
        fprintf(stderr,
                "tutti reproduce: there are no facts about '%s' and no folder facts/ here or "
                "beside the program; name a file\n",
                system);
    tt_text_fini(&known);
}

static int open_facts(const char *system, struct tt_facts *facts) {
    struct tt_error why;
    bool is_path = strchr(system, '/') || strstr(system, ".pbtxt");
    char *folder = is_path ? NULL : facts_folder(), *path = NULL;
    enum tt_err err = TT_ERR_NOT_FOUND;
    if (is_path)
        path = tt_copy_text(system);
    else if (folder)
        path = tt_format_text("%s%s.pbtxt", folder, system);
    int code = EXIT_DONE;
    if (path)
        err = tt_facts_open(facts, path, &why);
    if (err == TT_ERR_NOT_FOUND && !is_path) {
        refuse_unknown(system, folder);
        code = EXIT_USAGE;
    } else if (err) {
        code = tt_outcome_print_error(NULL, err, &why);
    }
    free(folder);
    free(path);
    return code;
}

/* Marks the facts that the flags select; false: an ID matches none. */
static bool choose(const struct flags *a, const struct tt_facts *facts, bool *chosen) {
    for (int32_t o = 0; o < a->only.count; o++) {
        const char *only = a->only.texts[o];
        size_t length = strlen(only);
        bool begins = length > 0 && only[length - 1] == '*', any = false;
        for (size_t i = 0; i < facts->message->n_fact; i++) {
            const char *id = facts->message->fact[i]->id;
            bool matches = begins ? strncmp(id, only, length - 1) == 0 : strcmp(id, only) == 0;
            chosen[i] = chosen[i] || matches;
            any = any || matches;
        }
        if (!any) {
            fprintf(stderr, "tutti reproduce: there is no fact '%s'; --list prints their names\n",
                    only);
            return false;
        }
    }
    for (size_t i = 0; a->only.count == 0 && i < facts->message->n_fact; i++) {
        const Tutti__Fact *fact = facts->message->fact[i];
        bool is_sweep = fact->ours->measure == TUTTI__FACT_MEASURE__SWEEP_GAIN;
        chosen[i] = !(a->quick && fact->slow) && (a->list || a->sweeps || !is_sweep);
    }
    return true;
}

/* ---- the table ---- */

struct row {
    const Tutti__Fact *fact;
    double ours;
    enum tt_fact_verdict verdict;
    struct tt_text note;
};

static const char *verdict_name(const struct row *row) {
    if (isnan(row->ours))
        return "not run";
    return row->verdict == TT_FACT_HOLDS   ? "holds"
           : row->verdict == TT_FACT_FAILS ? "FAILS"
                                           : "reported";
}

static void print_value(char *out, size_t size, double value, const char *unit) {
    if (isnan(value))
        snprintf(out, size, "-");
    else
        snprintf(out, size, "%.*f%s%s",
                 value >= 100  ? 0
                 : value >= 10 ? 1
                               : 3,
                 value, unit[0] ? " " : "", unit);
}

/* NAN: there is no ratio. */
static double ratio_of(const struct row *row) {
    if (row->fact->trace)
        return row->ours;
    return row->fact->published > 0 ? row->ours / row->fact->published : NAN;
}

static void print_cells(const struct row *row, char paper[48], char ours[48], char ratio[16]) {
    const Tutti__Fact *fact = row->fact;
    if (fact->trace) {
        size_t lines =
            fact->trace->n_batch + fact->trace->n_dropped + (size_t)fact->trace->nothing_dropped;
        snprintf(paper, 48, "%zu events", lines);
        snprintf(ours, 48, "%.0f equal", row->ours * (double)lines);
    } else {
        print_value(paper, 48, fact->published > 0 ? fact->published : NAN, fact->unit);
        print_value(ours, 48, row->ours, fact->unit);
    }
    double quotient = ratio_of(row);
    snprintf(ratio, 16, isnan(quotient) ? "-" : "%.3f", quotient);
    if (isnan(row->ours))
        snprintf(ours, 48, "-");
}

static void print_claim(const Tutti__Fact *fact, char *out, size_t size) {
    const Tutti__FactHolds *holds = fact->holds;
    out[0] = '\0';
    if (!holds || fact->trace)
        return;
    int at = 0;
    if (holds->tolerance > 0)
        at = snprintf(out, size, "+-%.3g %%", 100 * holds->tolerance);
    if (holds->at_least > 0)
        at += snprintf(out + at, size - (size_t)at, "%s>= %.6g", at ? ", " : "", holds->at_least);
    if (holds->at_most > 0)
        snprintf(out + at, size - (size_t)at, "%s<= %.6g", at ? ", " : "", holds->at_most);
}

static void print_text(const struct row *rows, size_t count) {
    int width = 4;
    for (size_t i = 0; i < count; i++)
        width = (int)strlen(rows[i].fact->what) > width ? (int)strlen(rows[i].fact->what) : width;
    printf("%-*s  %14s  %14s  %6s  %s\n", width, "fact", "published", "ours", "ratio", "");
    for (size_t i = 0; i < count; i++) {
        const struct row *row = &rows[i];
        char paper[48], ours[48], ratio[16], claim[64];
        print_cells(row, paper, ours, ratio);
        print_claim(row->fact, claim, sizeof(claim));
        printf("%-*s  %14s  %14s  %6s  %s%s%s%s\n", width, row->fact->what, paper, ours, ratio,
               verdict_name(row), claim[0] ? " (" : "", claim, claim[0] ? ")" : "");
        if (row->fact->reported)
            printf("    %s\n", row->fact->reported->reason);
        if (row->fact->why[0])
            printf("    %s\n", row->fact->why);
        if (row->note.length)
            printf("    [%s: %s; %s]\n", row->fact->id, row->fact->source,
                   tt_text_string(&row->note));
        else
            printf("    [%s: %s]\n", row->fact->id, row->fact->source);
    }
}

static void print_markdown(const struct row *rows, size_t count) {
    printf("| fact | source | published | ours | ratio | status | why, and notes |\n"
           "|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < count; i++) {
        const struct row *row = &rows[i];
        char paper[48], ours[48], ratio[16], claim[64];
        print_cells(row, paper, ours, ratio);
        print_claim(row->fact, claim, sizeof(claim));
        const char *reason = row->fact->reported ? row->fact->reported->reason : "";
        printf("| %s | %s | %s | %s | %s | %s%s%s | %s%s%s%s%s%s%s |\n", row->fact->what,
               row->fact->source, paper, ours, ratio, verdict_name(row), claim[0] ? ", " : "",
               claim, reason, reason[0] ? " " : "", row->fact->why, row->fact->why[0] ? " " : "",
               row->note.length ? "(" : "", tt_text_string(&row->note),
               row->note.length ? ")" : "");
    }
}

static json_t *number_or_null(double value) {
    return isnan(value) ? json_null() : json_real(value);
}

static void print_json(const struct flags *a, const struct tt_facts *facts, const struct row *rows,
                       size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        const Tutti__Fact *fact = rows[i].fact;
        json_array_append_new(
            list, json_pack("{s:s,s:s,s:s,s:o,s:s,s:o,s:o,s:s,s:s,s:s,s:s}", "id", fact->id, "what",
                            fact->what, "source", fact->source, "published",
                            number_or_null(fact->trace           ? 1
                                           : fact->published > 0 ? fact->published
                                                                 : NAN),
                            "unit", fact->unit, "ours", number_or_null(rows[i].ours), "ratio",
                            number_or_null(ratio_of(&rows[i])), "status", verdict_name(&rows[i]),
                            "reason", fact->reported ? fact->reported->reason : "", "why",
                            fact->why, "note", tt_text_string(&rows[i].note)));
    }
    json_t *out = json_pack("{s:s,s:s,s:b,s:o}", "system", a->system, "title",
                            facts->message->title, "quick", a->quick, "facts", list);
    json_dumpf(out, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(8));
    putchar('\n');
    json_decref(out);
}

static int report(const struct flags *a, const struct tt_facts *facts, const struct row *rows,
                  size_t count) {
    if (a->json)
        print_json(a, facts, rows, count);
    else if (a->markdown)
        print_markdown(rows, count);
    else
        print_text(rows, count);
    int32_t holds = 0, fails = 0, reported = 0, not_run = 0;
    for (size_t i = 0; i < count; i++) {
        if (isnan(rows[i].ours))
            not_run++;
        holds += !isnan(rows[i].ours) && rows[i].verdict == TT_FACT_HOLDS;
        fails += !isnan(rows[i].ours) && rows[i].verdict == TT_FACT_FAILS;
        reported += !isnan(rows[i].ours) && rows[i].verdict == TT_FACT_REPORTED;
    }
    fprintf(stderr, "%d hold, %d fail, %d reported", holds, fails, reported);
    if (not_run)
        fprintf(stderr, ", %d not run", not_run);
    int32_t left_out = 0;
    for (size_t i = 0; !a->sweeps && a->only.count == 0 && i < facts->message->n_fact; i++)
        left_out += facts->message->fact[i]->ours->measure == TUTTI__FACT_MEASURE__SWEEP_GAIN;
    if (left_out)
        fprintf(stderr, "; %d about sweeps left out (--sweeps FOLDER runs them)", left_out);
    fputc('\n', stderr);
    return tt_interrupted ? EXIT_INTERRUPTED : fails || not_run ? EXIT_FAILED : EXIT_DONE;
}

static void progress(int32_t finished, int32_t count) {
    tt_outcome_progress(NULL, finished, count);
}

static int reproduce(const struct flags *a, const struct tt_facts *facts, const bool *chosen) {
    struct tt_fact_runs_options options = {.quick = a->quick,
                                           .workers = a->workers,
                                           .sweeps = a->sweeps,
                                           .stop = &tt_interrupted,
                                           .progress = progress};
    struct tt_error why;
    struct tt_fact_runs *runs;
    enum tt_err err = tt_fact_runs_new(facts, chosen, &options, &runs, &why);
    if (err)
        return tt_outcome_print_error(NULL, err, &why);
    int64_t started_at = tt_clock_now();
    err = tt_fact_runs_run(runs, &why);
    size_t count = 0;
    struct row *rows = tt_allocate(facts->message->n_fact, sizeof(*rows));
    for (size_t i = 0; !err && i < facts->message->n_fact; i++) {
        if (!chosen[i])
            continue;
        struct row *row = &rows[count++];
        row->fact = facts->message->fact[i];
        tt_text_init(&row->note);
        row->ours = tt_fact_runs_value(runs, i, &row->note);
        row->verdict = tt_fact_judge(row->fact, row->ours, a->quick ? QUICK_EXTRA : 0);
    }
    int code = err    ? tt_outcome_print_error(NULL, err, &why)
               : rows ? report(a, facts, rows, count)
                      : EXIT_FAILED;
    fprintf(stderr, "%.1f s\n", (double)(tt_clock_now() - started_at) / 1e9);
    for (size_t i = 0; i < count; i++)
        tt_text_fini(&rows[i].note);
    free(rows);
    tt_fact_runs_free(runs);
    return code;
}

static const struct tt_flag_row flag_rows[] = {
    TT_OPERAND(TT_FLAG_TEXT, "SYSTEM", system, true,
               "facts/SYSTEM.pbtxt, such as symphony; with a slash or .pbtxt, a file",
               .candidates = complete_systems),
    TT_SWITCH("quick", quick, "shorter runs and one seed; bounds are 3 points wider"),
    TT_LIST("only", "ID", only, 64,
            "only this fact; ID* takes all that begin with ID; may be repeated"),
    TT_TEXT("sweeps", "DIR", sweeps, NULL,
            "also the facts about sweeps, which take long; finished points are kept in DIR and "
            "not repeated"),
    TT_SWITCH("list", list, "list the facts without running anything"),
    TT_SWITCH("json", json, "print the table as JSON"),
    TT_SWITCH("markdown", markdown, "print the table as Markdown"),
    TT_INTEGER("workers", "N", workers, 1, 64, 0,
               "maximum number of processes (default: number of processors)"),
};

static int run(void *options) {
    const struct flags *a = options;
    struct tt_facts facts;
    int code = open_facts(a->system, &facts);
    if (code)
        return code;
    bool *chosen = tt_allocate(facts.message->n_fact, sizeof(*chosen));
    tt_outcome_catch_interrupt();
    if (!choose(a, &facts, chosen))
        code = EXIT_USAGE;
    else if (!a->list)
        code = reproduce(a, &facts, chosen);
    for (size_t i = 0; code == EXIT_DONE && a->list && i < facts.message->n_fact; i++)
        if (chosen[i])
            printf("%-28s %s\n", facts.message->fact[i]->id, facts.message->fact[i]->what);
    free(chosen);
    tt_facts_close(&facts);
    return code;
}

const struct tt_verb tt_verb_reproduce = {
    .name = "reproduce",
    .summary = "run a paper's experiments: published value, ours, ratio, reason",
    .usage = "SYSTEM [OPTIONS]",
    .description = "Runs the experiments and worked examples of a system's paper and prints the "
                   "published value, ours, their ratio, and why they differ. The exit code is 1 if "
                   "a claimed fact does not hold.",
    TT_VERB_RUNS(flag_rows, run)};
