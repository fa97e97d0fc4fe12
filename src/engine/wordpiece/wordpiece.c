#include "engine/wordpiece/wordpiece.h"

#include "base/fnv.h"
#include "base/regular_file.h"
#include "base/text.h"
#include "engine/wordpiece/wordpiece_fold.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE_BYTES = 64 << 20, PREFIX_BYTES = 2, MAX_CODE_BYTES = 4 };

struct token {
    const char *bytes; /* in `text`; NULL: a free place of the table */
    uint32_t size_bytes;
    int32_t id;
};

struct tt_wordpiece {
    struct tt_text text; /* the file */
    struct token *table; /* [mask + 1], open addressing */
    uint32_t mask;
    uint32_t longest_bytes; /* of all tokens */
    int32_t pad, unknown, begin, end;
};

/* ---- the vocabulary ---- */

static uint32_t place_of(const struct tt_wordpiece *self, const char *bytes, size_t size_bytes) {
    uint32_t at = (uint32_t)tt_fnv_add(TT_FNV_START, bytes, size_bytes) & self->mask;
    while (self->table[at].bytes && (self->table[at].size_bytes != size_bytes ||
                                     memcmp(self->table[at].bytes, bytes, size_bytes) != 0))
        at = (at + 1) & self->mask;
    return at;
}

/* The id; -1: no such token. */
static int32_t id_of(const struct tt_wordpiece *self, const char *bytes, size_t size_bytes) {
    const struct token *token = &self->table[place_of(self, bytes, size_bytes)];
    return token->bytes ? token->id : -1;
}

/* The next line from *at on, without its end. False: there is none. */
static bool next_line(const struct tt_text *text, size_t *at, size_t *out_first, size_t *out_size) {
    if (*at >= text->length)
        return false;
    const char *end = memchr(text->bytes + *at, '\n', text->length - *at);
    size_t size = end ? (size_t)(end - text->bytes) - *at : text->length - *at;
    *out_first = *at;
    *at += size + 1;
    *out_size = size > 0 && text->bytes[*out_first + size - 1] == '\r' ? size - 1 : size;
    return true;
}

static enum tt_err index_lines(struct tt_wordpiece *self) {
    size_t at = 0, first, size, lines = 0, places = 16;
    while (next_line(&self->text, &at, &first, &size))
        lines++;
    while (places < 2 * lines)
        places *= 2;
    self->table = calloc(places, sizeof(*self->table));
    if (!self->table)
        return TT_ERR_NO_MEMORY;
    self->mask = (uint32_t)places - 1;
    at = 0;
    for (int32_t id = 0; next_line(&self->text, &at, &first, &size); id++) {
        const char *bytes = self->text.bytes + first;
        struct token *token = &self->table[place_of(self, bytes, size)];
        *token = (struct token){.bytes = bytes, .size_bytes = (uint32_t)size, .id = id};
        if (size > self->longest_bytes)
            self->longest_bytes = (uint32_t)size;
    }
    return TT_OK;
}

static enum tt_err find_special(struct tt_wordpiece *self, const char *path, struct tt_error *why) {
    const struct {
        const char *name;
        int32_t *id;
    } special[] = {{"[PAD]", &self->pad},
                   {"[UNK]", &self->unknown},
                   {"[CLS]", &self->begin},
                   {"[SEP]", &self->end}};
    for (size_t i = 0; i < TT_COUNT(special); i++) {
        *special[i].id = id_of(self, special[i].name, strlen(special[i].name));
        if (*special[i].id < 0)
            return tt_fail(TT_ERR_INVALID, why,
                           "%s: there is no token %s; a vocabulary has one token per line, as in "
                           "the vocab.txt of uncased BERT models",
                           path, special[i].name);
    }
    return TT_OK;
}

enum tt_err tt_wordpiece_open(const char *path, struct tt_wordpiece **out_wordpiece,
                              struct tt_error *why) {
    struct tt_wordpiece *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "%s: out of memory", path);
    enum tt_err err = tt_regular_file_read(path, MAX_FILE_BYTES, &self->text, why);
    if (err) {
        free(self);
        return err;
    }
    if (index_lines(self))
        err = tt_fail(TT_ERR_NO_MEMORY, why, "%s: out of memory", path);
    else
        err = find_special(self, path, why);
    if (err) {
        tt_wordpiece_close(self);
        return err;
    }
    *out_wordpiece = self;
    return TT_OK;
}

void tt_wordpiece_close(struct tt_wordpiece *take_self) {
    if (!take_self)
        return;
    tt_text_fini(&take_self->text);
    free(take_self->table);
    free(take_self);
}

int64_t tt_wordpiece_pad(const struct tt_wordpiece *self) { return self->pad; }

/* ---- words ---- */

/* One encoding: the word at hand in UTF-8, behind room for "##", and the ids so far. */
struct encoder {
    const struct tt_wordpiece *vocabulary;
    int64_t *ids;
    int32_t count, room; /* room: without [SEP] */
    int32_t length;      /* of the word, in characters; more than the maximum are not kept */
    uint32_t starts[TT_WORDPIECE_MAX_WORD + 1];
    char word[PREFIX_BYTES + TT_WORDPIECE_MAX_WORD * MAX_CODE_BYTES];
};

static void put_id(struct encoder *self, int32_t id) {
    if (self->count < self->room)
        self->ids[self->count++] = id;
}

static uint32_t write_code(uint32_t code, char *out) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    uint32_t size = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (uint32_t i = size - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)((0xf00u >> size) | code);
    return size;
}

static void add_code(struct encoder *self, uint32_t code) {
    if (self->length >= TT_WORDPIECE_MAX_WORD) {
        self->length = TT_WORDPIECE_MAX_WORD + 1;
        return;
    }
    uint32_t at = self->starts[self->length];
    self->starts[++self->length] = at + write_code(code, self->word + PREFIX_BYTES + at);
}

/* The longest token from character `first` on; *out_end is where it ends. -1: none. */
static int32_t longest_piece(struct encoder *self, int32_t first, int32_t *out_end) {
    uint32_t prefix = first > 0 ? PREFIX_BYTES : 0;
    char *bytes = self->word + PREFIX_BYTES + self->starts[first] - prefix;
    char saved[PREFIX_BYTES];
    int32_t id = -1;
    memcpy(saved, bytes, prefix);
    memcpy(bytes, "##", prefix);
    for (int32_t end = self->length; end > first && id < 0; end--) {
        uint32_t size = self->starts[end] - self->starts[first] + prefix;
        if (size > self->vocabulary->longest_bytes)
            continue;
        id = id_of(self->vocabulary, bytes, size);
        *out_end = end;
    }
    memcpy(bytes, saved, prefix);
    return id;
}

static void end_word(struct encoder *self) {
    int32_t pieces[TT_WORDPIECE_MAX_WORD], count = 0;
    bool is_known = self->length <= TT_WORDPIECE_MAX_WORD;
    for (int32_t at = 0; is_known && at < self->length;) {
        int32_t id = longest_piece(self, at, &at);
        is_known = id >= 0;
        if (is_known)
            pieces[count++] = id;
    }
    if (!is_known)
        put_id(self, self->vocabulary->unknown);
    for (int32_t i = 0; is_known && i < count; i++)
        put_id(self, pieces[i]);
    self->length = 0;
}

static void take_code(struct encoder *self, uint32_t code) {
    uint32_t folded[TT_FOLD_MAX];
    bool is_cjk = tt_wordpiece_is_cjk(code);
    if (tt_wordpiece_is_space(code)) {
        end_word(self);
        return;
    }
    if (is_cjk)
        end_word(self);
    int32_t count = tt_wordpiece_fold(code, folded);
    for (int32_t i = 0; i < count; i++) {
        bool is_alone = tt_wordpiece_is_punctuation(folded[i]);
        if (is_alone)
            end_word(self);
        add_code(self, folded[i]);
        if (is_alone)
            end_word(self);
    }
    if (is_cjk)
        end_word(self);
}

/* Reads one code point. False: there is none in UTF-8. */
static bool read_code(const char *text, size_t size_bytes, size_t *at, uint32_t *out_code) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const uint8_t *bytes = (const uint8_t *)text + *at;
    size_t left = size_bytes - *at;
    uint32_t size = bytes[0] < 0x80 ? 1 : bytes[0] < 0xe0 ? 2 : bytes[0] < 0xf0 ? 3 : 4;
    if (size > left || (size > 1 && bytes[0] < 0xc2) || bytes[0] > 0xf4)
        return false;
    uint32_t code = size == 1 ? bytes[0] : bytes[0] & (0x7fu >> size);
    for (uint32_t i = 1; i < size; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return false;
        code = code << 6 | (bytes[i] & 0x3f);
    }
    *at += size;
    *out_code = code;
    return code >= least[size] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
}

int32_t tt_wordpiece_encode(const struct tt_wordpiece *self, const char *text, size_t size_bytes,
                            int64_t *out_ids, int32_t limit) {
    struct encoder encoder;
    tt_assert(limit >= 2);
    encoder.vocabulary = self;
    encoder.ids = out_ids;
    encoder.count = encoder.length = 0;
    encoder.room = limit - 1;
    encoder.starts[0] = 0;
    put_id(&encoder, self->begin);
    for (size_t at = 0; at < size_bytes;) {
        uint32_t code;
        if (!read_code(text, size_bytes, &at, &code))
            return TT_ERR_INVALID;
        if (encoder.count < encoder.room)
            take_code(&encoder, code);
    }
    end_word(&encoder);
    out_ids[encoder.count++] = self->end;
    return encoder.count;
}
