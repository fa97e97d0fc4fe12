#include "cmd/flags.h"

#include "cmd/outcome.h"
#include "model/text/textproto.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_ROWS = 128, MAX_NEEDY = 32 };

/* Given flags that need others, which may follow them; each once. */
struct needy {
    struct tt_flag_row rows[MAX_NEEDY];
    int32_t count;
};

bool tt_flags_integer(const char *text, int64_t minimum, int64_t maximum, int64_t *out) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < minimum || value > maximum)
        return false;
    *out = value;
    return true;
}

bool tt_flags_decimal(const char *text, double low, double high, double *out) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= low && value <= high))
        return false;
    *out = value;
    return true;
}

bool tt_flags_weighted(const char *text, size_t *out_name_bytes, double *out_weight) {
    const char *colon = strrchr(text, ':');
    *out_name_bytes = colon ? (size_t)(colon - text) : strlen(text);
    *out_weight = 1;
    return !colon || tt_flags_decimal(colon + 1, 0.000001, 1e6, out_weight);
}

int32_t tt_flags_integers(const char *text, int64_t minimum, int64_t maximum, int32_t capacity,
                          int32_t *out) {
    int32_t count = 0;
    for (const char *at = text; *at; at += *at == ',') {
        char item[24];
        size_t length = strcspn(at, ",");
        int64_t number;
        if (count == capacity || length >= sizeof(item))
            return 0;
        snprintf(item, sizeof(item), "%.*s", (int)length, at);
        if (!tt_flags_integer(item, minimum, maximum, &number) ||
            (count && out[count - 1] >= number))
            return 0;
        out[count++] = (int32_t)number;
        at += length;
    }
    return count;
}

static bool takes_value(const struct tt_flag_row *row) { return row->argument != NULL; }

/* ---- storing values ---- */

static void *field_of(const struct tt_flag_row *row, void *options) {
    return (char *)options + row->offset;
}

static void store_integer(const struct tt_flag_row *row, void *options, int64_t value) {
    void *field = field_of(row, options);
    if (row->size == sizeof(int64_t))
        *(int64_t *)field = value;
    else if (row->size == sizeof(int32_t))
        *(int32_t *)field = (int32_t)value;
    else
        *(bool *)field = value != 0;
}

static void store_decimal(const struct tt_flag_row *row, void *options, double value) {
    if (row->scale)
        store_integer(row, options, llround(value * (double)row->scale));
    else
        *(double *)field_of(row, options) = value;
}

/* The index of the word among "a|b|c"; -1: none. */
static int64_t find_choice(const struct tt_flag_row *row, const char *text) {
    size_t length = strlen(text);
    int64_t index = 0;
    for (const char *at = row->choices;; at += strcspn(at, "|") + 1, index++) {
        if (strcspn(at, "|") == length &&
            (row->any_case ? strncasecmp(at, text, length) : strncmp(at, text, length)) == 0)
            return index;
        if (!strchr(at, '|'))
            return -1;
    }
}

static bool add_pair(const struct tt_flag_row *row, struct tt_flag_pairs *pairs, char *text) {
    tt_assert(row->maximum <= TT_FLAG_MAX_PAIRS);
    char *equals = row->key ? NULL : strchr(text, '=');
    if ((!row->key && !equals) || pairs->count == row->maximum)
        return false;
    if (equals)
        *equals = '\0';
    pairs->pairs[pairs->count++] =
        (struct tt_option){.key = row->key ? row->key : text, .value = equals ? equals + 1 : text};
    return true;
}

/* False: it is not a value of this flag. */
static bool store(const struct tt_flag_row *row, void *options, char *text) {
    void *field = field_of(row, options);
    struct tt_flag_list *list = field;
    int64_t number;
    double decimal;
    switch (row->type) {
    case TT_FLAG_INTEGER:
        if (!tt_flags_integer(text, row->minimum, row->maximum, &number))
            return false;
        store_integer(row, options, row->scale ? number * row->scale : number);
        return true;
    case TT_FLAG_DECIMAL:
        if (!tt_flags_decimal(text, row->low, row->high, &decimal))
            return false;
        store_decimal(row, options, decimal);
        return true;
    case TT_FLAG_CHOICE:
        number = find_choice(row, text);
        store_integer(row, options, number);
        return number >= 0;
    case TT_FLAG_BOOL:
        number = strcmp(text, "1") == 0 ? 0 : strcmp(text, "0") == 0 ? 1 : find_choice(row, text);
        store_integer(row, options, number == 0);
        return number >= 0;
    case TT_FLAG_TEXT: *(const char **)field = text; return true;
    case TT_FLAG_LIST:
        tt_assert(row->maximum <= TT_FLAG_MAX_LIST);
        if (list->count == row->maximum)
            return false;
        list->texts[list->count++] = text;
        return true;
    case TT_FLAG_PAIRS: return add_pair(row, field, text);
    case TT_FLAG_CALL: return row->take(options, text);
    case TT_FLAG_SWITCH:
    case TT_FLAG_HEADING: break;
    }
    store_integer(row, options, !row->clears);
    return true;
}

static void store_default(const struct tt_flag_row *row, void *options) {
    char text[64];
    if (row->type == TT_FLAG_INTEGER || row->type == TT_FLAG_CHOICE || row->type == TT_FLAG_BOOL)
        store_integer(row, options,
                      row->scale && row->default_value >= row->minimum
                          ? row->default_value * row->scale
                          : row->default_value);
    else if (row->type == TT_FLAG_DECIMAL)
        store_decimal(row, options, row->default_number);
    else if (row->type == TT_FLAG_TEXT)
        *(const char **)field_of(row, options) = row->default_text;
    else if (row->type == TT_FLAG_CALL && row->default_text) {
        snprintf(text, sizeof(text), "%s", row->default_text);
        bool taken = row->take(options, text);
        tt_assert(taken);
    }
}

/* ---- texts about values ---- */

int tt_flags_refuse(const struct tt_verb *verb, const char *format, ...) {
    char sentence[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof(sentence), format, arguments);
    va_end(arguments);
    fprintf(stderr, "tutti %s: %s; see tutti %s --help\n", verb->name, sentence, verb->name);
    return EXIT_USAGE;
}

static int refuse_value(const struct tt_verb *verb, const struct tt_flag_row *row,
                        const char *text) {
    bool repeats = row->type == TT_FLAG_LIST || row->type == TT_FLAG_PAIRS;
    if (repeats && (row->type == TT_FLAG_LIST || row->key || strchr(text, '=')))
        return tt_flags_refuse(verb, "%s%s can be given at most %lld times",
                               row->is_operand ? "" : "--", row->name, (long long)row->maximum);
    bool is_number = row->type == TT_FLAG_INTEGER || row->type == TT_FLAG_DECIMAL;
    struct tt_text allowed;
    tt_text_init(&allowed);
    tt_flags_put_allowed(row, &allowed);
    int code = tt_flags_refuse(verb, "%s%s%s%s must be %s, not '%s'", row->is_operand ? "" : "--",
                               row->name, is_number ? " " : "", is_number ? row->argument : "",
                               tt_text_string(&allowed), text);
    tt_text_fini(&allowed);
    return code;
}

/* ---- the command line ---- */

static int refuse_flag(const struct tt_verb *verb, const char *text) {
    const char *names[MAX_ROWS];
    char name[64];
    size_t count = 0;
    struct tt_flag_row row;
    for (int32_t i = 0; tt_flags_row(verb, i, &row) && count < MAX_ROWS; i++)
        if (row.type != TT_FLAG_HEADING && !row.is_operand)
            names[count++] = row.name;
    const char *start = text + strspn(text, "-");
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(start, "="), start);
    const char *near = tt_textproto_nearest(name, names, count);
    if (near)
        return tt_flags_refuse(verb, "unknown flag %s (did you mean '--%s'?)", text, near);
    return tt_flags_refuse(verb, "unknown flag %s", text);
}

static void add_needy(struct needy *self, const struct tt_flag_row *row) {
    for (int32_t i = 0; i < self->count; i++)
        if (strcmp(self->rows[i].name, row->name) == 0)
            return;
    tt_assert(self->count < MAX_NEEDY);
    self->rows[self->count++] = *row;
}

static bool is_given(const struct tt_verb *verb, const char *name, int length, void *options) {
    char text[64];
    struct tt_flag_row row;
    snprintf(text, sizeof(text), "--%.*s", length, name);
    bool is_found = tt_flags_find(verb, text, &row);
    tt_assert(is_found && (row.type == TT_FLAG_TEXT || row.type == TT_FLAG_SWITCH));
    void *field = field_of(&row, options);
    return row.type == TT_FLAG_TEXT ? *(const char **)field != NULL : *(bool *)field;
}

/* -1: one of the flags that it needs is given; else the exit code. */
static int check_needs(const struct tt_verb *verb, const struct tt_flag_row *row, void *options) {
    char needed[200] = "";
    for (const char *at = row->needs; *at;) {
        int length = (int)strcspn(at, "|"), used = (int)strlen(needed);
        if (is_given(verb, at, length, options))
            return -1;
        const char *next = at + length + (at[length] == '|');
        const char *between = !*next ? "" : strchr(next, '|') ? ", " : " or ";
        snprintf(needed + used, sizeof(needed) - (size_t)used, "--%.*s%s", length, at, between);
        at = next;
    }
    return tt_flags_refuse(verb, "--%s needs %s", row->name, needed);
}

/* The flag at argv[*index]; moves over its value. -1: go on; else the exit code. */
static int take_flag(const struct tt_verb *verb, int argc, char **argv, int *index, void *options,
                     struct needy *needy) {
    char *text = argv[*index], *equals = strchr(text, '=');
    struct tt_flag_row row;
    if (!tt_flags_find(verb, text, &row))
        return refuse_flag(verb, text);
    if (!takes_value(&row) && equals)
        return tt_flags_refuse(verb, "--%s takes no value, but '%s' is given", row.name, text);
    if (strcmp(row.name, "help") == 0) {
        tt_flags_print_help(verb);
        return EXIT_DONE;
    }
    char *value = equals ? equals + 1 : NULL;
    if (takes_value(&row) && !value && ++*index == argc)
        return tt_flags_refuse(verb, "a value is missing after --%s", row.name);
    value = value || !takes_value(&row) ? value : argv[*index];
    if (row.needs)
        add_needy(needy, &row);
    return store(&row, options, value) ? -1 : refuse_value(verb, &row, value);
}

/* Operands in the order of their rows; a LIST takes all that are left. */
static int take_operands(const struct tt_verb *verb, char **operands, int count, void *options) {
    int taken = 0;
    struct tt_flag_row row;
    for (int32_t i = 0; tt_flags_row(verb, i, &row); i++) {
        if (!row.is_operand)
            continue;
        if (taken == count && row.minimum)
            return tt_flags_refuse(verb, "%s is missing: %s", row.name, row.help);
        do {
            if (taken < count && !store(&row, options, operands[taken++]))
                return refuse_value(verb, &row, operands[taken - 1]);
        } while (row.type == TT_FLAG_LIST && taken < count);
    }
    return taken == count ? -1 : tt_flags_refuse(verb, "unexpected argument '%s'", operands[taken]);
}

int tt_flags_parse(const struct tt_verb *verb, int argc, char **argv, void *options) {
    struct tt_flag_row row;
    struct needy needy = {.count = 0};
    for (int32_t i = 0; tt_flags_row(verb, i, &row); i++)
        store_default(&row, options);
    int operands = 0;
    bool only_operands = false;
    for (int i = 1; i < argc; i++) {
        if (only_operands || argv[i][0] != '-' || argv[i][1] == '\0') {
            argv[operands++] = argv[i];
        } else if (strcmp(argv[i], "--") == 0) {
            only_operands = true;
        } else {
            int code = take_flag(verb, argc, argv, &i, options, &needy);
            if (code >= 0)
                return code;
        }
    }
    int code = -1;
    for (int32_t i = 0; code < 0 && i < needy.count; i++)
        code = check_needs(verb, &needy.rows[i], options);
    return code < 0 ? take_operands(verb, argv, operands, options) : code;
}
