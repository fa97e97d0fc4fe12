/* tutti policies: the policies and their options, as their kinds state them; with --json their
 * traits, too (docs/FORMATS.md). It knows no policy by name. */
#include "cmd/outcome.h"
#include "cmd/verbs.h"

#include "model/text/textproto.h"
#include "policy/auto_policy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void print_duration(int64_t ns) {
    static const struct {
        int64_t ns;
        const char *unit;
    } units[] = {{1000000000, "s"}, {1000000, "ms"}, {1000, "us"}, {1, "ns"}};
    size_t u = 0;
    while (ns % units[u].ns != 0)
        u++;
    printf("%" PRId64 "%s", ns / units[u].ns, ns ? units[u].unit : "");
}

static void print_value(enum tt_option_type type, int64_t value) {
    if (type == TT_OPTION_DURATION)
        print_duration(value);
    else if (type == TT_OPTION_PERMILLE)
        printf("%g", (double)value / 1000);
    else
        printf("%" PRId64, value);
}

static void print_option(const struct tt_option_spec *spec) {
    printf("  %s: ", spec->key);
    switch (spec->type) {
    case TT_OPTION_CHOICE: {
        int64_t index = 0;
        const char *default_value = spec->choices;
        for (; index < spec->default_value; index++)
            default_value = strchr(default_value, '|') + 1;
        printf("%s (%.*s)\n", spec->choices, (int)strcspn(default_value, "|"), default_value);
        break;
    }
    case TT_OPTION_SIZES: printf("sizes, such as 1,2,4\n"); break;
    case TT_OPTION_GROUPS: printf("groups of sizes, such as 4;2,2\n"); break;
    case TT_OPTION_INTEGER:
    case TT_OPTION_DURATION:
    case TT_OPTION_PERMILLE:
        print_value(spec->type, spec->minimum);
        printf(" .. ");
        print_value(spec->type, spec->maximum);
        if (spec->default_value >= spec->minimum) { /* else `help` states the default */
            printf(" (");
            print_value(spec->type, spec->default_value);
            printf(")");
        }
        printf("\n");
        break;
    }
    printf("      %s\n", spec->help);
}

static void print_policy(const char *name) {
    const struct tt_policy_kind *kind = tt_policy_find(name); /* NULL: auto */
    int32_t count = kind ? kind->option_count : 0;
    const struct tt_option_spec *specs = kind ? kind->options : tt_auto_option_specs(&count);
    printf("%s: %s\n", name, kind ? kind->summary : tt_auto_summary);
    for (int32_t i = 0; i < count; i++)
        print_option(&specs[i]);
    if (count == 0)
        printf("  no options\n");
}

/* ---- JSON ---- */

static json_t *json_choices(const char *choices) {
    json_t *out = json_array();
    for (const char *at = choices; at; at = strchr(at, '|')) {
        at += *at == '|';
        json_array_append_new(out, json_stringn(at, strcspn(at, "|")));
    }
    return out;
}

static json_t *json_option(const struct tt_option_spec *spec) {
    static const char *const types[] = {
        [TT_OPTION_INTEGER] = "integer",   [TT_OPTION_DURATION] = "duration_ns",
        [TT_OPTION_PERMILLE] = "permille", [TT_OPTION_CHOICE] = "choice",
        [TT_OPTION_SIZES] = "sizes",       [TT_OPTION_GROUPS] = "groups"};
    json_t *out =
        json_pack("{s:s,s:s,s:s}", "key", spec->key, "type", types[spec->type], "help", spec->help);
    if (spec->type == TT_OPTION_CHOICE) {
        json_t *choices = json_choices(spec->choices);
        json_object_set(out, "default", json_array_get(choices, (size_t)spec->default_value));
        json_object_set_new(out, "choices", choices);
        return out;
    }
    json_object_set_new(out, "minimum", json_integer(spec->minimum));
    json_object_set_new(out, "maximum", json_integer(spec->maximum));
    bool has_default = spec->default_value >= spec->minimum;
    json_object_set_new(out, "default",
                        has_default ? json_integer(spec->default_value) : json_null());
    return out;
}

/* {"KEY": "VALUE"}; null where there is no such option. */
static json_t *json_given(struct tt_option option) {
    return option.key ? json_pack("{s:s}", option.key, option.value) : json_null();
}

static json_t *json_serving(const struct tt_policy_serving *serving) {
    json_t *defaults = json_object(), *workers = json_null();
    for (int32_t i = 0; i < serving->default_count; i++)
        json_object_set_new(defaults, serving->defaults[i].key,
                            json_string(serving->defaults[i].value));
    if (serving->workers.sizes)
        workers =
            json_pack("{s:s,s:s?,s:o}", "sizes", serving->workers.sizes, "plans",
                      serving->workers.plans, "measured", json_given(serving->workers.measured));
    return json_pack("{s:o,s:o,s:o,s:o}", "defaults", defaults, "same_shape",
                     json_given(serving->same_shape), "computes_late",
                     json_given(serving->computes_late), "workers", workers);
}

static json_t *json_options(const struct tt_option_spec *specs, int32_t count) {
    json_t *out = json_array();
    for (int32_t i = 0; i < count; i++)
        json_array_append_new(out, json_option(&specs[i]));
    return out;
}

/* It has no traits: it is not a policy but a choice of one. */
static json_t *json_auto(void) {
    int32_t count;
    const struct tt_option_spec *specs = tt_auto_option_specs(&count);
    return json_pack("{s:s,s:s,s:o}", "name", tt_auto_name, "summary", tt_auto_summary, "options",
                     json_options(specs, count));
}

static json_t *json_policy(const struct tt_policy_kind *kind) {
    static const char *const granularities[] = {[TT_GRANULARITY_GRAPH] = "graph",
                                                [TT_GRANULARITY_STAGE] = "stage",
                                                [TT_GRANULARITY_NODE] = "node",
                                                [TT_GRANULARITY_CELL] = "cell"};
    const struct tt_policy_traits *traits = &kind->traits;
    json_t *stated = json_pack("{s:s,s:b,s:b,s:b,s:b,s:b,s:b,s:b,s:i}", "granularity",
                               granularities[traits->granularity], "runs_alone", traits->runs_alone,
                               "runs_as_they_came", traits->runs_as_they_came, "orders_by_priority",
                               traits->orders_by_priority, "first_step_only",
                               traits->first_step_only, "needs_profiles", traits->needs_profiles,
                               "waits_for_inputs", traits->waits_for_inputs, "stage_per_executor",
                               traits->stage_per_executor, "default_depth", traits->default_depth);
    return json_pack("{s:s,s:s,s:o,s:o,s:o}", "name", kind->name, "summary", kind->summary,
                     "traits", stated, "serving", json_serving(&kind->serving), "options",
                     json_options(kind->options, kind->option_count));
}

/* ---- the verb ---- */

struct flags {
    bool json;
    struct tt_flag_list names;
};

static const struct tt_flag_row flag_rows[] = {
    TT_SWITCH("json", json, "print everything as JSON: traits, options, what the server adds"),
    TT_OPERAND(TT_FLAG_LIST, "NAME", names, false, "a policy; may be repeated",
               .maximum = TT_FLAG_MAX_LIST, .candidates = tt_flags_policies),
};

static void print_json(const struct tt_flag_list *names) {
    json_t *all = json_array();
    for (int32_t i = 0; i < names->count; i++) {
        const struct tt_policy_kind *kind = tt_policy_find(names->texts[i]);
        json_array_append_new(all, kind ? json_policy(kind) : json_auto());
    }
    for (int32_t p = 0; names->count == 0 && p < tt_policy_count(); p++)
        json_array_append_new(all, json_policy(tt_policy_at(p)));
    tt_outcome_print_json(all);
}

static int refuse_policy(const char *name) {
    enum { MAX_POLICIES = 64 };
    const char *known[MAX_POLICIES];
    int32_t count = 0;
    known[count++] = tt_auto_name;
    for (int32_t i = 0; i < tt_policy_count() && count < MAX_POLICIES; i++)
        known[count++] = tt_policy_at(i)->name;
    const char *near = tt_textproto_nearest(name, known, (size_t)count);
    return tt_flags_refuse(&tt_verb_policies,
                           "unknown policy '%s'%s%s%s; without a name, all are listed", name,
                           near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
}

static int run(void *options) {
    const struct flags *flags = options;
    const struct tt_flag_list *names = &flags->names;
    for (int32_t i = 0; i < names->count; i++)
        if (!tt_policy_find(names->texts[i]) && !tt_policy_is_auto(names->texts[i]))
            return refuse_policy(names->texts[i]);
    if (flags->json) {
        print_json(names);
        return EXIT_DONE;
    }
    for (int32_t i = 0; i < names->count; i++)
        print_policy(names->texts[i]);
    for (int32_t p = 0; names->count == 0 && p < tt_policy_count(); p++)
        printf("%-10s %s\n", tt_policy_at(p)->name, tt_policy_at(p)->summary);
    return EXIT_DONE;
}

const struct tt_verb tt_verb_policies = {
    .name = "policies",
    .summary = "list the scheduling policies and their options",
    .usage = "[--json] [NAME ...]",
    .description =
        "Without a name: one line per policy. With names: the options of each, their ranges and "
        "defaults. An option is set in a configuration file:\n\n"
        "policy { name: \"lazy\" option { key: \"patience\" value: \"1\" } }\n\n"
        "A model's tutti.pbtxt may also name auto, which is none of them: the server then chooses "
        "among them while it serves. `tutti policies auto` prints its options.",
    TT_VERB_RUNS(flag_rows, run)};
