#include "cmd/flags.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH = 98, HELP_COLUMN = 28 };

static const char *const type_names[] = {
    [TT_FLAG_HEADING] = "heading", [TT_FLAG_SWITCH] = "switch", [TT_FLAG_INTEGER] = "integer",
    [TT_FLAG_DECIMAL] = "decimal", [TT_FLAG_CHOICE] = "choice", [TT_FLAG_BOOL] = "bool",
    [TT_FLAG_TEXT] = "text",       [TT_FLAG_LIST] = "list",     [TT_FLAG_PAIRS] = "key=value",
    [TT_FLAG_CALL] = "other"};

/* ---- --help ---- */

/* Words of `text` in lines of WIDTH, of which the first begins at `column`. */
static void put_wrapped(struct tt_text *out, const char *text, size_t column) {
    size_t at = column;
    for (const char *word = text; *word;) {
        size_t length = strcspn(word, " \n");
        if (at > column && at + 1 + length > WIDTH) {
            tt_text_printf(out, "\n%*s", (int)column, "");
            at = column;
        } else if (at > column) {
            tt_text_puts(out, " ");
            at++;
        }
        tt_text_append(out, word, length);
        at += length;
        word += length;
        if (*word == '\n' && word[1] == '\n') {
            tt_text_puts(out, "\n\n");
            at = column;
        }
        word += strspn(word, " \n");
    }
    tt_text_puts(out, "\n");
}

/* "--rows N" or "FILE". */
static void put_name(const struct tt_flag_row *row, struct tt_text *out) {
    tt_text_printf(out, "%s%s", row->is_operand ? "" : "--", row->name);
    if (!row->is_operand && row->argument)
        tt_text_printf(out, " %s", row->argument);
}

static void put_row(const struct tt_flag_row *row, struct tt_text *out) {
    if (row->type == TT_FLAG_HEADING) {
        tt_text_printf(out, "\n%s:\n", row->name);
        return;
    }
    struct tt_text name, help, start;
    tt_text_init(&name);
    tt_text_init(&help);
    tt_text_init(&start);
    put_name(row, &name);
    tt_flags_put_default(row, &start);
    tt_text_puts(&help, row->help);
    if (start.length)
        tt_text_printf(&help, " (default %s%s%s)", tt_text_string(&start),
                       row->unit && row->unit[0] ? " " : "", row->unit ? row->unit : "");
    bool fits = name.length + 4 <= HELP_COLUMN;
    tt_text_printf(out, "  %-*s", fits ? HELP_COLUMN - 2 : 0, tt_text_string(&name));
    if (!fits)
        tt_text_printf(out, "\n%*s", HELP_COLUMN, "");
    put_wrapped(out, tt_text_string(&help), HELP_COLUMN);
    tt_text_fini(&name);
    tt_text_fini(&help);
    tt_text_fini(&start);
}

void tt_flags_print_help(const struct tt_verb *verb) {
    struct tt_text out;
    struct tt_flag_row row;
    tt_text_init(&out);
    tt_text_printf(&out, "Usage: tutti %s %s\n\n", verb->name, verb->usage);
    put_wrapped(&out, verb->description, 0);
    for (int32_t i = 0; tt_flags_row(verb, i, &row); i++) {
        if (i == 0 && row.type != TT_FLAG_HEADING)
            tt_text_puts(&out, "\n");
        put_row(&row, &out);
    }
    fputs(tt_text_string(&out), stdout);
    tt_text_fini(&out);
}

/* ---- for programs ---- */

static void set_text(json_t *object, const char *key, struct tt_text *take_text) {
    if (take_text->length)
        json_object_set_new(object, key, json_string(tt_text_string(take_text)));
    tt_text_fini(take_text);
}

static json_t *describe_row(const struct tt_flag_row *row) {
    struct tt_text name, text, allowed;
    tt_text_init(&name);
    tt_text_init(&text);
    tt_text_init(&allowed);
    json_t *object = json_pack("{s:s,s:s,s:b}", "type", type_names[row->type], "name", row->name,
                               "operand", row->is_operand);
    if (row->type == TT_FLAG_HEADING)
        return object;
    put_name(row, &name);
    set_text(object, "shown", &name);
    json_object_set_new(object, "help", json_string(row->help));
    tt_flags_put_default(row, &text);
    set_text(object, "default", &text);
    tt_flags_put_allowed(row, &allowed);
    set_text(object, "allowed", &allowed);
    if (row->unit && row->unit[0])
        json_object_set_new(object, "unit", json_string(row->unit));
    if (row->choices)
        json_object_set_new(object, "choices", json_string(row->choices));
    if (row->needs)
        json_object_set_new(object, "needs", json_string(row->needs));
    if (row->type == TT_FLAG_INTEGER)
        json_object_update_new(object, json_pack("{s:I,s:I}", "minimum", (json_int_t)row->minimum,
                                                 "maximum", (json_int_t)row->maximum));
    if (row->type == TT_FLAG_DECIMAL)
        json_object_update_new(object,
                               json_pack("{s:f,s:f}", "minimum", row->low, "maximum", row->high));
    return object;
}

json_t *tt_flags_describe(const struct tt_verb *verb) {
    json_t *rows = json_array();
    struct tt_flag_row row;
    for (int32_t i = 0; tt_flags_row(verb, i, &row); i++)
        json_array_append_new(rows, describe_row(&row));
    return json_pack("{s:s,s:s,s:s,s:s,s:o}", "name", verb->name, "summary", verb->summary, "usage",
                     verb->usage, "description", verb->description, "rows", rows);
}

/* ---- completion ---- */

void tt_flags_policies(struct tt_text *out_lines) {
    for (int32_t p = 0; p < tt_policy_count(); p++)
        tt_text_printf(out_lines, "%s\t%s\n", tt_policy_at(p)->name, tt_policy_at(p)->summary);
}

/* `before`: what of the word stays in front of each candidate, such as "--world=" or "real,". */
static void print_candidates(const struct tt_flag_row *row, const char *before,
                             size_t before_length) {
    struct tt_text lines;
    tt_text_init(&lines);
    if (row->candidates)
        row->candidates(&lines);
    for (const char *at = row->choices ? row->choices : ""; *at; at += *at == '|') {
        tt_text_printf(&lines, "%.*s\n", (int)strcspn(at, "|"), at);
        at += strcspn(at, "|");
    }
    for (const char *at = tt_text_string(&lines); *at; at += *at == '\n') {
        printf("%.*s%.*s\n", (int)before_length, before, (int)strcspn(at, "\n"), at);
        at += strcspn(at, "\n");
    }
    if (lines.length == 0 && row->argument && strstr(row->argument, "FILE"))
        puts(":files");
    else if (lines.length == 0 && row->argument && strstr(row->argument, "DIR"))
        puts(":directories");
    tt_text_fini(&lines);
}

static void complete_value(const struct tt_flag_row *row, const char *word, size_t before) {
    const char *comma = strchr(row->argument, ',') ? strrchr(word, ',') : NULL;
    print_candidates(row, word, comma ? (size_t)(comma + 1 - word) : before);
}

static void complete_flag(const struct tt_verb *verb) {
    struct tt_flag_row row;
    for (int32_t i = 0; tt_flags_row(verb, i, &row); i++)
        if (row.type != TT_FLAG_HEADING && !row.is_operand)
            printf("--%s\t%.*s\n", row.name, (int)strcspn(row.help, "\n"), row.help);
}

static void complete_operand(const struct tt_verb *verb, int32_t number, const char *word) {
    struct tt_flag_row row;
    for (int32_t i = 0; tt_flags_row(verb, i, &row); i++) {
        if (!row.is_operand || (row.type != TT_FLAG_LIST && number-- > 0))
            continue;
        complete_value(&row, word, 0);
        return;
    }
}

void tt_flags_complete(const struct tt_verb *verb, char **words, int count) {
    struct tt_flag_row row, pending = {0};
    int32_t operands = 0;
    for (int i = 0; i + 1 < count; i++) {
        bool flag = !strchr(words[i], '=') && tt_flags_find(verb, words[i], &row);
        if (strcmp(words[i], "=") == 0) /* bash makes it a word of its own */
            continue;
        operands += !pending.argument && words[i][0] != '-';
        pending = flag && !pending.argument ? row : (struct tt_flag_row){0};
    }
    const char *word = count ? words[count - 1] : "";
    size_t equals = strcspn(word, "=");
    if (pending.argument)
        complete_value(&pending, word, 0);
    else if (word[equals] && tt_flags_find(verb, word, &row) && row.argument)
        complete_value(&row, word, equals + 1);
    else if (word[0] == '-')
        complete_flag(verb);
    else
        complete_operand(verb, operands, word);
}
