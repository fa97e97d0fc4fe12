#include "net/access/token_file.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- references --- */

static void identity_free(struct tt_shared *shared) {
    free(TT_CONTAINER_OF(shared, struct tt_identity, holder.shared));
}

void tt_identity_unref(struct tt_identity *self) {
    if (self)
        tt_byte_holder_unref(&self->holder);
}

static void table_free(struct tt_shared *shared) {
    struct tt_token_table *self = TT_CONTAINER_OF(shared, struct tt_token_table, shared);
    for (int32_t i = 0; i < self->count; i++)
        tt_identity_unref(self->entries[i].identity);
    free(self);
}

void tt_token_table_unref(struct tt_token_table *self) {
    if (self)
        tt_shared_unref(&self->shared);
}

/* --- lines --- */

struct reader {
    const char *path;
    int32_t line;
    const struct tt_token_table *former; /* NULL: none */
    struct tt_token_table *table;
    struct tt_error *why;
};

struct field {
    const char *at;
    size_t length;
};

/* What a line says. */
struct entry {
    struct field name;
    enum tt_role role;
    struct tt_token_digest digest;
    int64_t in_flight_limit, rate_limit, bytes_limit;
};

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* The next field of the line, which ends at `end`; `length` 0: there is none. */
static struct field next_field(const char **at, const char *end) {
    while (*at < end && is_blank(**at))
        ++*at;
    struct field field = {*at, 0};
    while (*at < end && !is_blank(**at))
        ++*at;
    field.length = (size_t)(*at - field.at);
    return field;
}

static bool is_name(const struct field *name) {
    for (size_t i = 0; i < name->length; i++) {
        char c = name->at[i];
        bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '.' || c == '_' || c == '@' || c == '-';
        if (!good)
            return false;
    }
    return name->length > 0 && name->length < TT_IDENTITY_NAME_BYTES;
}

static enum tt_err refuse(const struct reader *self, const char *sentence) {
    return tt_fail(TT_ERR_INVALID, self->why, "%s:%d: %s", self->path, self->line, sentence);
}

/* `key=N`; false: another key. *out is -1 if N is not a number from 1 to a thousand million. */
static bool read_limit(const struct field *field, const char *key, int64_t *out) {
    size_t key_length = strlen(key);
    if (field->length < key_length || memcmp(field->at, key, key_length) != 0)
        return false;
    int64_t value = 0;
    for (size_t i = key_length; i < field->length; i++) {
        char c = field->at[i];
        value = c >= '0' && c <= '9' && value <= TT_S ? value * 10 + (c - '0') : TT_S + 1;
    }
    *out = value >= 1 && value <= TT_S ? value : -1;
    return true;
}

static enum tt_err read_line(const struct reader *self, const char *at, const char *end,
                             struct entry *out) {
    *out = (struct entry){.name = next_field(&at, end)};
    struct field role = next_field(&at, end), digest = next_field(&at, end), field;
    if (!is_name(&out->name))
        return refuse(self, "a name has at most 63 letters, digits and . _ @ -");
    if (!tt_role_parse(role.at, role.length, &out->role))
        return refuse(self, "the second field is the role: infer, read or admin");
    if (!tt_token_digest_parse(digest.at, digest.length, &out->digest))
        return refuse(self, "the third field is the SHA-256 digest of the token, 64 hexadecimal "
                            "digits, as `tutti token` prints it");
    while ((field = next_field(&at, end)).length)
        if (!read_limit(&field, "in_flight=", &out->in_flight_limit) &&
            !read_limit(&field, "rate=", &out->rate_limit) &&
            !read_limit(&field, "bytes=", &out->bytes_limit))
            return refuse(self, "after the digest only in_flight=N and rate=N and bytes=N may "
                                "follow");
    if (out->in_flight_limit < 0 || out->rate_limit < 0 || out->bytes_limit < 0)
        return refuse(self, "a limit is a number from 1 to 1000000000");
    return TT_OK;
}

static bool is_named(const struct tt_identity *identity, const struct field *name) {
    return strlen(identity->name) == name->length &&
           memcmp(identity->name, name->at, name->length) == 0;
}

static struct tt_identity *find_name(const struct tt_token_table *table, const struct field *name) {
    for (int32_t i = 0; table && i < table->count; i++)
        if (is_named(table->entries[i].identity, name))
            return table->entries[i].identity;
    return NULL;
}

static bool is_same(const struct tt_identity *identity, const struct entry *entry) {
    return identity->role == entry->role && identity->in_flight_limit == entry->in_flight_limit &&
           identity->rate_limit == entry->rate_limit &&
           identity->holder.bytes_limit == entry->bytes_limit;
}

/* A reference to the identity of that name; NULL: no memory. */
static struct tt_identity *identity_for(const struct reader *self, const struct entry *entry) {
    struct tt_identity *identity = find_name(self->table, &entry->name);
    if (!identity)
        identity = find_name(self->former, &entry->name);
    if (identity && is_same(identity, entry)) {
        tt_byte_holder_ref(&identity->holder);
        return identity;
    }
    identity = calloc(1, sizeof(*identity));
    if (!identity)
        return NULL;
    tt_shared_init(&identity->holder.shared, identity_free);
    memcpy(identity->name, entry->name.at, entry->name.length);
    identity->role = entry->role;
    identity->in_flight_limit = entry->in_flight_limit;
    identity->rate_limit = entry->rate_limit;
    identity->holder.bytes_limit = entry->bytes_limit;
    identity->holder.name = identity->name;
    identity->holder.setting = "bytes= in the file of tokens";
    return identity;
}

static enum tt_err add(struct reader *self, const struct entry *entry) {
    struct tt_token_table *table = self->table;
    const struct tt_identity *same = find_name(table, &entry->name);
    if (same && !is_same(same, entry))
        return refuse(self, "the name stands above with another role or other limits");
    if (tt_token_table_find(table, &entry->digest))
        return refuse(self, "the digest stands above: a token belongs to one line");
    if (table->count == TT_TOKEN_FILE_LINES)
        return refuse(self, "a file has at most 1024 tokens");
    struct tt_identity *identity = identity_for(self, entry);
    if (!identity)
        return tt_fail(TT_ERR_NO_MEMORY, self->why, "no memory for the tokens of %s", self->path);
    table->entries[table->count].digest = entry->digest;
    table->entries[table->count++].identity = identity;
    return TT_OK;
}

static enum tt_err read_lines(struct reader *self, const char *text, size_t length) {
    const char *end = text + length;
    enum tt_err err = TT_OK;
    for (const char *at = text; at < end && !err; self->line++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end, *comment = memchr(at, '#', (size_t)(stop - at));
        const char *line_end = comment ? comment : stop, *first = at;
        struct entry entry;
        if (next_field(&first, line_end).length) {
            err = read_line(self, at, line_end, &entry);
            err = err ? err : add(self, &entry);
        }
        at = stop + 1;
    }
    return err;
}

static int32_t count_lines(const char *text, size_t length) {
    int32_t count = 1;
    for (size_t i = 0; i < length && count < TT_TOKEN_FILE_LINES; i++)
        count += text[i] == '\n';
    return count;
}

enum tt_err tt_token_table_parse(const char *path, const char *text, size_t length,
                                 const struct tt_token_table *former,
                                 struct tt_token_table **out_table, struct tt_error *why) {
    struct tt_token_table *table;
    table =
        calloc(1, sizeof(*table) + (size_t)count_lines(text, length) * sizeof(table->entries[0]));
    if (!table)
        return tt_fail(TT_ERR_NO_MEMORY, why, "no memory for the tokens of %s", path);
    tt_shared_init(&table->shared, table_free);
    struct reader reader = {.path = path, .line = 1, .former = former, .table = table, .why = why};
    enum tt_err err = read_lines(&reader, text, length);
    if (!err && table->count == 0)
        err = tt_fail(TT_ERR_INVALID, why,
                      "%s: the file has no token; a line is NAME ROLE SHA256, as `tutti token` "
                      "prints it",
                      path);
    if (err)
        tt_token_table_unref(table);
    else
        *out_table = table;
    return err;
}

enum tt_err tt_token_table_read(const char *path, const struct tt_token_table *former,
                                struct tt_token_table **out_table, struct tt_error *why) {
    struct tt_text text;
    tt_text_init(&text);
    enum tt_err err = tt_text_read_file(path, TT_TOKEN_FILE_BYTES, &text, why);
    if (!err)
        err =
            tt_token_table_parse(path, tt_text_string(&text), text.length, former, out_table, why);
    tt_text_fini(&text);
    return err;
}

struct tt_identity *tt_token_table_find(const struct tt_token_table *self,
                                        const struct tt_token_digest *digest) {
    uint64_t found = 0; /* 1 + the index; no branch depends on an entry */
    for (int32_t i = 0; i < self->count; i++)
        found |= tt_token_digest_equal(&self->entries[i].digest, digest) & ((uint64_t)i + 1);
    tt_assert(found <= (uint64_t)self->count);
    return found ? self->entries[found - 1].identity : NULL;
}

void tt_token_table_check(const struct tt_token_table *self) {
    tt_assert(self->count > 0);
    tt_assert(self->count <= TT_TOKEN_FILE_LINES);
    for (int32_t i = 0; i < self->count; i++) {
        const struct tt_identity *identity = self->entries[i].identity;
        const struct field name = {identity->name, strlen(identity->name)};
        tt_assert(is_name(&name));
        tt_assert(identity->role < TT_ROLE_COUNT);
        tt_assert(tt_client_limits_in_work(&identity->holder.limits) >= 0);
        tt_assert(tt_client_limits_bytes(&identity->holder.limits) >= 0);
        for (int32_t k = 0; k < i; k++) {
            const struct tt_identity *other = self->entries[k].identity;
            tt_assert(!tt_token_digest_equal(&self->entries[i].digest, &self->entries[k].digest));
            tt_assert(other == identity || strcmp(other->name, identity->name) != 0);
        }
    }
}
