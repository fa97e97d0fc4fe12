/* tutti reproduce [SYSTEM]: runs the experiments of a paper, or of all, and compares the results
 * with what it publishes and with our earlier ones. */
#include "base/clock.h"
#include "cmd/facts_folder.h"
#include "cmd/outcome.h"
#include "cmd/verbs.h"
#include "lab/facts/fact_group.h"
#include "lab/facts/fact_report.h"
#include "lab/facts/fact_runs.h"
#include "lab/scenario/allocate.h"
#include "lab/scenario/scenario.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The page of all tables, from the folder of the facts. */
#define PAGE "../docs/results/REPRODUCTION.md"

struct flags {
    const char *system, *resume, *sweeps, *output;
    int32_t world; /* enum tt_world */
    struct tt_flag_list only, values;
    int32_t workers;
    bool quick, json, list, markdown;
};

static void complete_systems(struct tt_text *out_lines) {
    char *folder = tt_facts_folder("simulated");
    tt_facts_list_systems(folder, "\n", out_lines);
    free(folder);
}

static const char *world_of(const struct flags *a) {
    return tt_world_name((enum tt_world)a->world);
}

static bool in_real_time(const struct flags *a) { return a->world != TT_WORLD_SIMULATED; }

/* The facts of one file that the flags select. */
struct choice {
    bool *shown;  /* a row of the tables */
    bool *needed; /* to be run: for itself, or as part of another */
};

static size_t index_of(const struct tt_facts *facts, const char *id) {
    size_t index = 0;
    while (strcmp(facts->message->fact[index]->id, id) != 0)
        index++;
    return index;
}

/* Marks the facts with this id, or that begin with it; false: there is none. */
static bool choose_only(const struct tt_facts *facts, const char *only, bool *shown) {
    size_t length = strlen(only);
    bool begins = length > 0 && only[length - 1] == '*', any = false;
    for (size_t i = 0; i < facts->message->n_fact; i++) {
        const char *id = facts->message->fact[i]->id;
        bool matches = begins ? strncmp(id, only, length - 1) == 0 : strcmp(id, only) == 0;
        shown[i] = shown[i] || matches;
        any = any || matches;
    }
    if (!any)
        fprintf(stderr, "tutti reproduce: there is no fact '%s'; --list prints their names\n",
                only);
    return any;
}

static bool is_left_out(const struct flags *a, const Tutti__Fact *fact) {
    bool is_sweep = fact->ours && fact->ours->measure == TUTTI__FACT_MEASURE__SWEEP_GAIN;
    return a->only.count == 0 && a->quick && (fact->slow || is_sweep);
}

/* Without --only all facts are shown; those that are left out are not run. False: an ID matches
 * none. */
static bool choose(const struct flags *a, const struct tt_facts *facts, struct choice *choice) {
    size_t count = facts->message->n_fact;
    for (int32_t o = 0; o < a->only.count; o++)
        if (!choose_only(facts, a->only.texts[o], choice->shown))
            return false;
    for (size_t i = 0; i < count; i++) {
        const Tutti__Fact *fact = facts->message->fact[i];
        choice->shown[i] = choice->shown[i] || a->only.count == 0;
        if (!choice->shown[i] || is_left_out(a, fact))
            continue;
        choice->needed[i] = true;
        for (size_t part = 0; part < fact->n_parts; part++)
            choice->needed[index_of(facts, fact->parts[part])] = true;
    }
    return true;
}

/* ---- the tables ---- */

/* What all systems of a call have together. */
struct output {
    struct tt_fact_counts counts;
    struct tt_text page; /* Markdown */
    json_t *systems;
    json_t *kept; /* the outputs that --values names; NULL: none */
};

static void report(const struct flags *a, const struct tt_fact_table *table,
                   struct output *output) {
    tt_fact_counts_add(&output->counts, table);
    tt_text_printf(&output->page, "\n## %s\n\n", table->title);
    tt_fact_report_markdown(table, &output->page);
    if (a->json) {
        json_array_append_new(output->systems, tt_fact_report_json(table));
        return;
    }
    struct tt_text text;
    tt_text_init(&text);
    if (a->markdown)
        tt_fact_report_markdown(table, &text);
    else
        tt_fact_report_text(table, &text);
    tt_text_puts(&text, "\n");
    tt_outcome_print_text(&text);
}

static void progress(int32_t finished, int32_t count) {
    tt_outcome_progress(NULL, finished, count);
}

static void say(const char *line) { fprintf(stderr, "%s\n", line); }

/* Whether the output of an earlier call with --json is of this system in this world. */
static bool is_output_of(const json_t *output, const char *system, const char *world) {
    const char *name = json_string_value(json_object_get(output, "system"));
    const char *of = json_string_value(json_object_get(output, "world"));
    return name && strcmp(name, system) == 0 && strcmp(of ? of : "", world) == 0;
}

/* The row `id` of `system` in such outputs; NULL: none. Borrowed. */
static const json_t *find_kept(const json_t *kept, const char *system, const char *world,
                               const char *id) {
    static const char *const tables[] = {"published", "measured", "regression"};
    size_t file, i;
    const json_t *output, *row;
    json_array_foreach(kept, file, output) {
        if (!is_output_of(output, system, world))
            continue;
        for (size_t t = 0; t < TT_COUNT(tables); t++)
            json_array_foreach(json_object_get(output, tables[t]), i, row) {
                const char *found = json_string_value(json_object_get(row, "id"));
                if (found && strcmp(found, id) == 0 && json_is_number(json_object_get(row, "ours")))
                    return row;
            }
    }
    return NULL;
}

/* The kept value of the fact, or that of its kept parts; NAN: one is missing. */
static double kept_value(const json_t *kept, const char *system, const char *world,
                         const Tutti__Fact *fact) {
    const json_t *row = find_kept(kept, system, world, fact->id);
    if (row)
        return json_number_value(json_object_get(row, "ours"));
    double values[TT_FACT_GROUP_MAX] = {NAN};
    for (size_t i = 0; i < fact->n_parts; i++) {
        const json_t *part = find_kept(kept, system, world, fact->parts[i]);
        values[i] = part ? json_number_value(json_object_get(part, "ours")) : NAN;
    }
    return fact->n_parts > 0 ? tt_fact_group_reduce(fact, values, (int32_t)fact->n_parts) : NAN;
}

static void add_conditions(const struct tt_fact_runs *runs, size_t fact, struct tt_text *note) {
    struct tt_text conditions;
    tt_text_init(&conditions);
    tt_fact_runs_conditions(runs, fact, &conditions);
    if (conditions.length)
        tt_text_printf(note, "%s%s", note->length ? "; " : "", tt_text_string(&conditions));
    tt_text_fini(&conditions);
}

/* The rows of the facts that are shown. `runs` is NULL if the values are kept ones. Returns their
 * number. */
static size_t fill_rows(const char *system, const struct tt_facts *facts,
                        const struct choice *choice, const struct tt_fact_runs *runs,
                        const json_t *kept, struct tt_fact_row *rows) {
    size_t count = 0;
    const char *world = facts->message->world;
    for (size_t i = 0; i < facts->message->n_fact; i++) {
        if (!choice->shown[i])
            continue;
        struct tt_fact_row *row = &rows[count++];
        row->fact = facts->message->fact[i];
        tt_text_init(&row->note);
        row->ours = kept ? kept_value(kept, system, world, row->fact) : NAN;
        row->left_out = isnan(row->ours) && !choice->needed[i];
        const json_t *old = kept ? find_kept(kept, system, world, row->fact->id) : NULL;
        if (old)
            tt_text_puts(&row->note, json_string_value(json_object_get(old, "note")));
        else if (runs && !row->left_out)
            row->ours = tt_fact_runs_value(runs, i, &row->note);
        if (runs && !old && !row->left_out)
            add_conditions(runs, i, &row->note);
        if (row->left_out && !row->fact->not_attempted[0])
            tt_text_puts(&row->note, "left out by --quick");
    }
    return count;
}

/* Runs what is needed, and adds the tables of the facts that are shown. */
static int reproduce(const struct flags *a, const char *system, const struct tt_facts *facts,
                     const struct choice *choice, struct output *output) {
    struct tt_fact_runs_options options = {.quick = a->quick,
                                           .workers = a->workers,
                                           .sweeps = a->sweeps,
                                           .stop = &tt_interrupted,
                                           .progress = in_real_time(a) ? NULL : progress};
    char *state = a->resume ? tt_facts_state_path(a->resume, system, world_of(a)) : NULL;
    options.state_path = state;
    options.say = say;
    struct tt_error why;
    struct tt_fact_runs *runs = NULL;
    int64_t started_at = tt_clock_now();
    enum tt_err err = TT_OK;
    if (!output->kept)
        err = tt_fact_runs_new(facts, choice->needed, &options, &runs, &why);
    if (!err && runs)
        err = tt_fact_runs_run(runs, &why);
    free(state);
    if (err) {
        tt_fact_runs_free(runs);
        return tt_outcome_print_error(NULL, err, &why);
    }
    struct tt_fact_row *rows = tt_allocate(facts->message->n_fact, sizeof(*rows));
    struct tt_fact_table table = {.system = system,
                                  .title = facts->message->title,
                                  .world = facts->message->world,
                                  .quick = a->quick,
                                  .rows = rows};
    table.count = fill_rows(system, facts, choice, runs, output->kept, rows);
    report(a, &table, output);
    fprintf(stderr, "%s: %.1f s\n", system, (double)(tt_clock_now() - started_at) / 1e9);
    for (size_t i = 0; i < table.count; i++)
        tt_text_fini(&rows[i].note);
    free(rows);
    tt_fact_runs_free(runs);
    return tt_interrupted ? EXIT_INTERRUPTED : EXIT_DONE;
}

static const struct tt_flag_row flag_rows[] = {
    TT_OPERAND(TT_FLAG_TEXT, "SYSTEM", system, false,
               "facts/SYSTEM.pbtxt, such as symphony; with a slash or .pbtxt, a file; not given: "
               "all systems",
               .candidates = complete_systems),
    TT_CHOICE(
        "world", world, "simulated|emulated|real", TT_WORLD_SIMULATED,
        "the facts about this world: virtual time, devices that wait as long as profiles say, "
        "or models on this machine"),
    TT_TEXT("resume", "DIR", resume, NULL,
            "in the worlds emulated and real: keep what each run gave in DIR, and repeat no run "
            "that is kept there; made on another machine or by another program, remove it"),
    TT_SWITCH(
        "quick", quick,
        "shorter runs and one seed; goals, earlier simulations and bounds are 3 points wider"),
    TT_LIST("only", "ID", only, 64,
            "only this fact; ID* takes all that begin with ID; may be repeated"),
    TT_TEXT(
        "sweeps", "DIR", sweeps, NULL,
        "keep the finished points of sweeps, which take longest, in DIR, and repeat none that is "
        "kept there"),
    TT_SWITCH("list", list, "list the facts without running anything"),
    TT_SWITCH("json", json, "print the tables as JSON"),
    TT_SWITCH("markdown", markdown, "print the tables as Markdown"),
    TT_LIST("values", "FILE", values, 64,
            "run nothing: take our values from this output of an earlier call with --json; may be "
            "repeated"),
    TT_TEXT("output", "FILE", output, NULL,
            "also write the tables to this file as Markdown (default of all systems without "
            "--quick: docs/results/REPRODUCTION.md)"),
    TT_INTEGER("workers", "N", workers, 1, 64, 0,
               "maximum number of processes (default: number of processors)"),
};

static int run_system(const struct flags *a, const char *system, struct output *output) {
    struct tt_facts facts;
    int code = tt_facts_open_system(system, world_of(a), &facts);
    if (code)
        return code;
    size_t count = facts.message->n_fact;
    struct choice choice = {.shown = tt_allocate(count, sizeof(bool)),
                            .needed = tt_allocate(count, sizeof(bool))};
    if (!choose(a, &facts, &choice))
        code = EXIT_USAGE;
    else if (!a->list)
        code = reproduce(a, system, &facts, &choice, output);
    for (size_t i = 0; code == EXIT_DONE && a->list && i < count; i++)
        if (choice.shown[i])
            printf("%-28s %s\n", facts.message->fact[i]->id, facts.message->fact[i]->what);
    free(choice.shown);
    free(choice.needed);
    tt_facts_close(&facts);
    return code;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All systems of the folder, in the order of their names. */
static int run_all(const struct flags *a, const char *folder, struct output *output) {
    struct tt_text names;
    tt_text_init(&names);
    tt_facts_list_systems(folder, "\n", &names);
    size_t count = 0;
    char *systems[64], *rest = NULL, *text = tt_copy_text(tt_text_string(&names));
    for (char *name = strtok_r(text, "\n", &rest); name && count < TT_COUNT(systems);
         name = strtok_r(NULL, "\n", &rest))
        systems[count++] = name;
    qsort(systems, count, sizeof(*systems), compare_names);
    int code = EXIT_DONE;
    for (size_t i = 0; code == EXIT_DONE && i < count; i++)
        code = run_system(a, systems[i], output);
    free(text);
    tt_text_fini(&names);
    return code;
}

static int write_page(const struct flags *a, const char *path, const struct output *output) {
    struct tt_text text;
    struct tt_error why;
    tt_text_init(&text);
    tt_text_printf(&text,
                   "# Reproduction%s: the tables\n\n`tutti reproduce%s%s` writes this page. [The "
                   "summary](../REPRODUCTION.md) says how to read it.\n\n```\n",
                   in_real_time(a) ? " in real time" : "", in_real_time(a) ? " --world " : "",
                   in_real_time(a) ? world_of(a) : "");
    tt_fact_counts_print(&output->counts, &text);
    tt_text_puts(&text, "```\n");
    tt_text_append(&text, output->page.bytes, (size_t)output->page.length);
    enum tt_err err = tt_text_write_file(path, &text, &why);
    tt_text_fini(&text);
    return err ? tt_outcome_print_error(NULL, err, &why) : EXIT_DONE;
}

static int print_counts(const struct flags *a, struct output *output) {
    if (a->json && a->system) {
        json_t *only = json_incref(json_array_get(output->systems, 0));
        tt_outcome_print_json(only);
    } else if (a->json) {
        tt_outcome_print_json(json_pack("{s:O,s:o}", "systems", output->systems, "counts",
                                        tt_fact_counts_json(&output->counts)));
    } else {
        struct tt_text text;
        tt_text_init(&text);
        tt_fact_counts_print(&output->counts, &text);
        tt_outcome_print_text(&text);
    }
    return output->counts.fail > 0 || output->counts.not_run > 0 ? EXIT_FAILED : EXIT_DONE;
}

/* Reads the files of --values, if there are any. */
static int read_kept(const struct flags *a, struct output *output) {
    for (int32_t i = 0; i < a->values.count; i++) {
        json_error_t error;
        json_t *content = json_load_file(a->values.texts[i], 0, &error);
        const json_t *systems = json_object_get(content, "systems");
        if (!content || !(systems || json_object_get(content, "system"))) {
            fprintf(stderr, "tutti reproduce: --values %s: %s\n", a->values.texts[i],
                    content ? "it is no output of tutti reproduce --json" : error.text);
            json_decref(content);
            return EXIT_USAGE;
        }
        if (!output->kept)
            output->kept = json_array();
        size_t s;
        json_t *one;
        json_array_foreach(systems, s, one) json_array_append(output->kept, one);
        if (!systems)
            json_array_append(output->kept, content);
        json_decref(content);
    }
    return EXIT_DONE;
}

/* Refuses a flag in place of a name: without SYSTEM such a slip would run everything. */
static bool has_names(const struct flags *a) {
    const char *const names[] = {a->output, a->sweeps, a->resume,
                                 a->values.count ? a->values.texts[0] : NULL};
    static const char *const flags[] = {"output", "sweeps", "resume", "values"};
    for (size_t i = 0; i < TT_COUNT(names); i++)
        if (names[i] && strncmp(names[i], "--", 2) == 0) {
            fprintf(stderr, "tutti reproduce: --%s is '%s'; a name is missing after it\n", flags[i],
                    names[i]);
            return false;
        }
    return true;
}

static int run(void *options) {
    const struct flags *a = options;
    if (!has_names(a))
        return EXIT_USAGE;
    if (a->resume && !in_real_time(a)) {
        fprintf(stderr,
                "tutti reproduce: --resume keeps runs of --world emulated and --world real; "
                "those in virtual time are quick to repeat\n");
        return EXIT_USAGE;
    }
    if (!a->system && a->only.count > 0) {
        fprintf(stderr, "tutti reproduce: --only needs SYSTEM: ids are names within one\n");
        return EXIT_USAGE;
    }
    char *folder = a->system ? NULL : tt_facts_folder(world_of(a));
    if (!a->system && !folder) {
        tt_facts_refuse_unknown("", world_of(a), NULL);
        return EXIT_USAGE;
    }
    tt_outcome_catch_interrupt();
    struct output output = {.systems = json_array()};
    tt_text_init(&output.page);
    int code = read_kept(a, &output);
    if (code == EXIT_DONE)
        code = a->system ? run_system(a, a->system, &output) : run_all(a, folder, &output);
    bool has_page = !a->system && !a->quick && !in_real_time(a);
    char *page = a->output  ? tt_copy_text(a->output)
                 : has_page ? tt_format_text("%s" PAGE, folder)
                            : NULL;
    if (code == EXIT_DONE && !a->list && page)
        code = write_page(a, page, &output);
    if (!a->list && (code == EXIT_DONE || code == EXIT_INTERRUPTED)) {
        int verdict = print_counts(a, &output);
        code = code == EXIT_DONE ? verdict : code;
    }
    free(page);
    free(folder);
    tt_text_fini(&output.page);
    json_decref(output.systems);
    json_decref(output.kept);
    return code;
}

const struct tt_verb tt_verb_reproduce = {
    .name = "reproduce",
    .summary = "run a paper's experiments: published value, ours, ratio, reason",
    .usage = "[SYSTEM] [OPTIONS]",
    .description = "Runs the experiments and worked examples of the papers. The first table has "
                   "each number that a paper publishes: its value, ours, their ratio, a class, "
                   "and why they differ. The second table has what our runs must give again; the "
                   "exit code is 1 if one of its rows fails.",
    TT_VERB_RUNS(flag_rows, run)};
