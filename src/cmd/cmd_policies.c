/* tutti policies: the policies and their options, from the tables of the policies. */
#include "cmd/outcome.h"
#include "cmd/verbs.h"

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

static void print_policy(const struct tt_policy_kind *kind) {
    printf("%s: %s\n", kind->name, kind->summary);
    for (int32_t i = 0; i < kind->option_count; i++)
        print_option(&kind->options[i]);
    if (kind->option_count == 0)
        printf("  no options\n");
}

struct flags {
    struct tt_flag_list names;
};

static const struct tt_flag_row flag_rows[] = {
    TT_OPERAND(TT_FLAG_LIST, "NAME", names, false, "a policy; may be repeated",
               .maximum = TT_FLAG_MAX_LIST, .candidates = tt_flags_policies),
};

static int run(void *options) {
    const struct tt_flag_list *names = &((struct flags *)options)->names;
    for (int32_t i = 0; i < names->count; i++)
        if (!tt_policy_find(names->texts[i]))
            return tt_flags_refuse(&tt_verb_policies,
                                   "unknown policy '%s'; without a name, all are listed",
                                   names->texts[i]);
    for (int32_t i = 0; i < names->count; i++)
        print_policy(tt_policy_find(names->texts[i]));
    for (int32_t p = 0; names->count == 0 && p < tt_policy_count(); p++)
        printf("%-10s %s\n", tt_policy_at(p)->name, tt_policy_at(p)->summary);
    return EXIT_DONE;
}

const struct tt_verb tt_verb_policies = {
    .name = "policies",
    .summary = "list the scheduling policies and their options",
    .usage = "[NAME ...]",
    .description =
        "Without a name: one line per policy. With names: the options of each, their ranges and "
        "defaults. An option is set in a configuration file:\n\n"
        "policy { name: \"lazy\" option { key: \"patience\" value: \"1\" } }",
    TT_VERB_RUNS(flag_rows, run)};
