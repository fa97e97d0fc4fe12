/* The flags of the verbs: one table per verb feeds the parser, --help, the man page and completion.
 *
 * A verb is a `struct tt_verb`: its texts, its table of rows, the size of its options struct, and
 * `run`. main() allocates the options, calls tt_flags_parse(), which stores defaults and then what
 * the command line gives, and calls `run` with them. A row states the field of the options that
 * takes the value, the allowed values, the default and the help, and which flags it has no effect
 * without. A default below the minimum means "not given". A verb itself checks only other
 * conditions on several flags.
 *
 * Text in the options is borrowed from argv. flags.c parses; flags_help.c prints help, the
 * description for make_man.py, and candidates for completion. Nothing here runs a verb. */
#ifndef TT_CMD_FLAGS_H
#define TT_CMD_FLAGS_H

#include "base/text.h"
#include "policy/policy.h"

#include <jansson.h>

enum tt_flag_type {
    TT_FLAG_HEADING, /* of the rows that follow, in --help */
    TT_FLAG_SWITCH,  /* no value; bool */
    TT_FLAG_INTEGER, /* bool, int32_t, enum or int64_t, by the size of the field */
    TT_FLAG_DECIMAL, /* double; with a scale int64_t, rounded */
    TT_FLAG_CHOICE,  /* the index among `choices`, stored as an integer */
    TT_FLAG_BOOL,    /* bool; true, false, 1 or 0 */
    TT_FLAG_TEXT,    /* const char * */
    TT_FLAG_LIST,    /* struct tt_flag_list; repeatable, up to `maximum` times */
    TT_FLAG_PAIRS, /* struct tt_flag_pairs; KEY=VALUE, or VALUE where the row has a key; likewise */
    TT_FLAG_CALL,  /* `take` stores it */
};

enum { TT_FLAG_MAX_LIST = 256, TT_FLAG_MAX_PAIRS = 64 };

struct tt_flag_list {
    const char *texts[TT_FLAG_MAX_LIST];
    int32_t count;
};

struct tt_flag_pairs {
    struct tt_option pairs[TT_FLAG_MAX_PAIRS];
    int32_t count;
};

struct tt_flag_row {
    enum tt_flag_type type;
    bool is_operand;      /* a value without a flag; `minimum` 1: it is required */
    bool any_case;        /* CHOICE: upper and lower case are equal */
    bool clears;          /* SWITCH: stores false instead of true */
    const char *name;     /* without the dashes; an operand's placeholder; a heading's text */
    const char *argument; /* placeholder of the value; with FILE or DIR, paths complete it */
    const char *help;     /* without the default, which is appended */
    const char *unit;     /* INTEGER: of the default in --help; NULL or "": none */
    size_t offset, size;  /* of the field */
    int64_t minimum, maximum, default_value;
    double low, high, default_number; /* DECIMAL */
    int64_t scale;                    /* the field is the value times this; 0: as it is */
    const char *choices;              /* "a|b|c"; of other types than CHOICE for completion only */
    const char *default_text;         /* TEXT, CALL: stored if not given; may be NULL */
    const char *key;                  /* PAIRS */
    const char *needs;                /* "a|b": refused without one of these TEXTs and SWITCHes */
    const char *expects;              /* CALL: "--x must be EXPECTS" */
    bool (*take)(void *options, char *text);       /* false: `text` is not what it expects */
    void (*candidates)(struct tt_text *out_lines); /* for completion; "WORD" or "WORD\tMEANING" */
};

struct tt_verb {
    const char *name, *summary;
    const char *usage;       /* behind "tutti NAME " */
    const char *description; /* paragraphs with an empty line between */
    size_t options_bytes;
    const struct tt_flag_row *flags;
    int32_t flag_count;
    /* Rows behind those of the table, which are known at run time; may be NULL. */
    bool (*extra_flag)(int32_t index, struct tt_flag_row *out_flag);
    int (*run)(void *options); /* returns the exit code */
};

/* Rows of the table of a verb whose options are its own `struct flags`; `field` is a member of it.
 * Further members of the row may follow. */
#define TT_FLAG_FIELD(field)                                                                       \
    .offset = offsetof(struct flags, field), .size = sizeof(((struct flags *)NULL)->field)
#define TT_FLAG_ROW(kind, flag, value, field, text, ...)                                           \
    {                                                                                              \
        .type = (kind), .name = (flag), .argument = (value), TT_FLAG_FIELD(field), .help = (text), \
        ##__VA_ARGS__                                                                              \
    }
#define TT_HEADING(text)                                                                           \
    { .type = TT_FLAG_HEADING, .name = (text) }
#define TT_SWITCH(flag, field, text, ...)                                                          \
    TT_FLAG_ROW(TT_FLAG_SWITCH, flag, NULL, field, text, ##__VA_ARGS__)
#define TT_INTEGER(flag, value, field, low_, high_, start, text, ...)                              \
    TT_FLAG_ROW(TT_FLAG_INTEGER, flag, value, field, text, .minimum = (low_), .maximum = (high_),  \
                .default_value = (start), ##__VA_ARGS__)
#define TT_DECIMAL(flag, value, field, low_, high_, start, text, ...)                              \
    TT_FLAG_ROW(TT_FLAG_DECIMAL, flag, value, field, text, .low = (low_), .high = (high_),         \
                .default_number = (start), ##__VA_ARGS__)
#define TT_CHOICE(flag, field, words, start, text, ...)                                            \
    TT_FLAG_ROW(TT_FLAG_CHOICE, flag, words, field, text, .choices = (words),                      \
                .default_value = (start), ##__VA_ARGS__)
#define TT_BOOL(flag, field, start, text)                                                          \
    TT_FLAG_ROW(TT_FLAG_BOOL, flag, "true|false", field, text, .choices = "true|false",            \
                .default_value = (start))
#define TT_TEXT(flag, value, field, start, text, ...)                                              \
    TT_FLAG_ROW(TT_FLAG_TEXT, flag, value, field, text, .default_text = (start), ##__VA_ARGS__)
#define TT_LIST(flag, value, field, times, text, ...)                                              \
    TT_FLAG_ROW(TT_FLAG_LIST, flag, value, field, text, .maximum = (times), ##__VA_ARGS__)
#define TT_PAIRS(flag, value, field, times, text, ...)                                             \
    TT_FLAG_ROW(TT_FLAG_PAIRS, flag, value, field, text, .maximum = (times), ##__VA_ARGS__)
#define TT_CALL(flag, value, function, allowed, start, text, ...)                                  \
    {                                                                                              \
        .type = TT_FLAG_CALL, .name = (flag), .argument = (value), .take = (function),             \
        .expects = (allowed), .default_text = (start), .help = (text), ##__VA_ARGS__               \
    }
#define TT_OPERAND(kind, placeholder, field, required, text, ...)                                  \
    TT_FLAG_ROW(kind, placeholder, placeholder, field, text, .is_operand = true,                   \
                .minimum = (required), ##__VA_ARGS__)
/* The members of a struct tt_verb that a table and its options give. */
#define TT_VERB_RUNS(table, function)                                                              \
    .options_bytes = sizeof(struct flags), .flags = (table), .flag_count = TT_COUNT(table),        \
    .run = (function)

/* Row `index` of the verb: the table, the extra rows, --help. False behind the last. */
bool tt_flags_row(const struct tt_verb *verb, int32_t index, struct tt_flag_row *out_row);
/* The flag of "--name" or "--name=value", where a prefix that only one flag has is a name too. */
bool tt_flags_find(const struct tt_verb *verb, const char *text, struct tt_flag_row *out_row);
/* Fills the zeroed `options`. -1: go on; else the exit code (help was printed, or the error). */
int tt_flags_parse(const struct tt_verb *verb, int argc, char **argv, void *options);
/* "tutti VERB: SENTENCE; see tutti VERB --help" on stderr; returns EXIT_USAGE. */
int tt_flags_refuse(const struct tt_verb *verb, const char *format, ...) TT_PRINTF(2, 3);
/* The whole text as a number in the range; false otherwise, `*out` untouched. NaN is refused. */
bool tt_flags_integer(const char *text, int64_t minimum, int64_t maximum, int64_t *out);
bool tt_flags_decimal(const char *text, double low, double high, double *out);
/* "NAME" or "NAME:WEIGHT": how long the name is, and the weight, 1 if none is written. False: the
 * weight is not from 0.000001 to 1000000. */
bool tt_flags_weighted(const char *text, size_t *out_name_bytes, double *out_weight);
/* "A,B,..." ascending, each in the range: how many there are in out[capacity]; 0: malformed. */
int32_t tt_flags_integers(const char *text, int64_t minimum, int64_t maximum, int32_t capacity,
                          int32_t *out);

/* The default as --help shows it, appended to `out`; nothing if there is none. */
void tt_flags_put_default(const struct tt_flag_row *row, struct tt_text *out);
/* Which values the flag takes ("a whole number from 1 to 64"), appended to `out`. */
void tt_flags_put_allowed(const struct tt_flag_row *row, struct tt_text *out);
void tt_flags_print_help(const struct tt_verb *verb);
/* The verb and its rows as JSON, for make_man.py and the tests; a new reference. */
json_t *tt_flags_describe(const struct tt_verb *verb);
/* Prints the candidates for the last of `words`, which stand behind the verb: a line each, or
 * ":files" or ":directories" where the shell completes paths. */
void tt_flags_complete(const struct tt_verb *verb, char **words, int count);
/* Names of the policies, as a row's `candidates`. */
void tt_flags_policies(struct tt_text *out_lines);

#endif
