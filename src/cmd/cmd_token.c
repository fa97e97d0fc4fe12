/* tutti token: makes a bearer token, and its line for the file of tokens of `tutti serve`. */
#include "cmd/outcome.h"
#include "cmd/verbs.h"

#include "net/access/token_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum { RANDOM_BYTES = 33, TOKEN_BYTES = RANDOM_BYTES / 3 * 4 + 1 };

struct flags {
    const char *name, *role;
    int64_t in_flight, rate, bytes;
    bool as_json;
};

static const struct tt_flag_row flag_rows[] = {
    TT_OPERAND(TT_FLAG_TEXT, "NAME", name, 1, "whose token it is; for the log"),
    TT_OPERAND(TT_FLAG_TEXT, "ROLE", role, 1, "infer, read or admin",
               .choices = "infer|read|admin"),
    TT_INTEGER("in-flight", "N", in_flight, 1, TT_S, 0,
               "inferences that it may have in work at a time (default: no limit)"),
    TT_INTEGER("rate", "N", rate, 1, TT_S, 0, "requests per second (default: no limit)"),
    TT_INTEGER(
        "bytes", "N", bytes, 1, TT_S, 0,
        "bytes of bodies in receipt, and answers on their way, above 64 KiB at a time (default: "
        "no limit)"),
    TT_SWITCH("json", as_json, "print JSON"),
};

/* URL-safe base64. */
static void write_token(const unsigned char bytes[RANDOM_BYTES], char out[TOKEN_BYTES]) {
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    char *to = out;
    for (int i = 0; i < RANDOM_BYTES; i += 3) {
        unsigned group = (unsigned)bytes[i] << 16 | (unsigned)bytes[i + 1] << 8 | bytes[i + 2];
        for (int shift = 18; shift >= 0; shift -= 6)
            *to++ = letters[group >> shift & 63];
    }
    *to = '\0';
}

static void put_line(const struct flags *self, const char *digest, struct tt_text *line) {
    tt_text_printf(line, "%s %s %s", self->name, self->role, digest);
    if (self->in_flight)
        tt_text_printf(line, " in_flight=%lld", (long long)self->in_flight);
    if (self->rate)
        tt_text_printf(line, " rate=%lld", (long long)self->rate);
    if (self->bytes)
        tt_text_printf(line, " bytes=%lld", (long long)self->bytes);
}

/* The line as the server will read it. */
static enum tt_err check(const struct tt_text *line, struct tt_error *why) {
    struct tt_token_table *table;
    enum tt_err err = line->failed ? tt_fail(TT_ERR_NO_MEMORY, why, "no memory for the line")
                                   : tt_token_table_parse("the line", line->bytes, line->length,
                                                          NULL, &table, why);
    if (!err)
        tt_token_table_unref(table);
    return err;
}

static void print(const struct flags *self, const char *token, const struct tt_text *line) {
    if (self->as_json)
        tt_outcome_print_json(json_pack("{s:s,s:s}", "token", token, "line", line->bytes));
    else
        printf("%s\n%s\n", token, line->bytes);
}

static int run(void *options) {
    const struct flags *self = options;
    unsigned char bytes[RANDOM_BYTES];
    char token[TOKEN_BYTES], hex[TT_TOKEN_DIGEST_HEX + 1];
    struct tt_token_digest digest;
    struct tt_error why;
    struct tt_text line;
    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes)) {
        fprintf(stderr, "tutti token: no random bytes: %s\n", strerror(errno));
        return EXIT_FAILED;
    }
    write_token(bytes, token);
    tt_token_digest(token, strlen(token), &digest);
    tt_token_digest_write(&digest, hex);
    tt_text_init(&line);
    put_line(self, hex, &line);
    int code = EXIT_DONE;
    if (check(&line, &why) != TT_OK)
        code = tt_flags_refuse(&tt_verb_token, "%s", why.text);
    else
        print(self, token, &line);
    tt_text_fini(&line);
    return code;
}

const struct tt_verb tt_verb_token = {
    .name = "token",
    .summary = "make a bearer token, and its line for the tokens of tutti serve",
    .usage = "NAME ROLE [OPTIONS]",
    .description =
        "Prints a new random token, which goes to the client, and on the next line its entry for "
        "the file of tokens of `tutti serve`. The entry has only the token's SHA-256 digest.",
    TT_VERB_RUNS(flag_rows, run)};
