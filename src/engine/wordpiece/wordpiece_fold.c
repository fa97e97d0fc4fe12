#include "engine/wordpiece/wordpiece_fold.h"

#include "base/err.h"
#include "engine/wordpiece/wordpiece_tables.h"

static bool is_in(const struct tt_code_range *ranges, int32_t count, uint32_t code) {
    int32_t low = 0, high = count; /* the first range that does not end before the code */
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (ranges[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && ranges[low].first <= code;
}

static bool is_removed(uint32_t code) {
    return is_in(tt_wordpiece_removed, tt_wordpiece_removed_count, code);
}

/* A Hangul syllable is its two or three letters; the arithmetic is that of the Unicode standard. */
static int32_t fold_hangul(uint32_t code, uint32_t *out) {
    enum { FIRST = 0xac00, L = 0x1100, V = 0x1161, T = 0x11a7, V_COUNT = 21, T_COUNT = 28 };
    uint32_t index = code - FIRST;
    out[0] = L + index / (V_COUNT * T_COUNT);
    out[1] = V + index / T_COUNT % V_COUNT;
    out[2] = T + index % T_COUNT;
    return index % T_COUNT ? 3 : 2;
}

/* The last run that begins at or before the code; runs may interleave by one code point. */
static bool fold_by_run(uint32_t code, uint32_t *out) {
    int32_t low = 0, high = tt_wordpiece_folds_count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (tt_wordpiece_folds[middle].first <= code)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return false;
    const struct tt_fold_run *run = &tt_wordpiece_folds[low - 1];
    uint32_t offset = code - run->first;
    if (offset % run->step != 0 || offset / run->step >= run->count)
        return false;
    *out = run->to + offset / run->step * run->to_step;
    return true;
}

static int32_t expand(uint32_t code, uint32_t *out) {
    for (int32_t i = 0; i < tt_wordpiece_expansions_count; i++) {
        if (tt_wordpiece_expansions[i].from != code)
            continue;
        int32_t count = 0;
        while (count < TT_FOLD_MAX && tt_wordpiece_expansions[i].to[count]) {
            out[count] = tt_wordpiece_expansions[i].to[count];
            count++;
        }
        return count;
    }
    return 0;
}

int32_t tt_wordpiece_fold(uint32_t code, uint32_t out[TT_FOLD_MAX]) {
    if (code < 0x80) {
        bool is_upper = code >= 'A' && code <= 'Z';
        out[0] = is_upper ? code + ('a' - 'A') : code;
        return is_removed(code) ? 0 : 1;
    }
    if (is_removed(code))
        return 0;
    if (code >= 0xac00 && code <= 0xd7a3)
        return fold_hangul(code, out);
    if (fold_by_run(code, out))
        return 1;
    int32_t count = expand(code, out);
    if (count > 0)
        return count;
    out[0] = code;
    return 1;
}

bool tt_wordpiece_is_space(uint32_t code) {
    return is_in(tt_wordpiece_spaces, tt_wordpiece_spaces_count, code);
}

bool tt_wordpiece_is_punctuation(uint32_t code) {
    return is_in(tt_wordpiece_punctuation, tt_wordpiece_punctuation_count, code);
}

bool tt_wordpiece_is_cjk(uint32_t code) {
    static const struct tt_code_range ranges[] = {
        {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},   {0x20000, 0x2a6df},
        {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f}};
    return code >= 0x3400 && is_in(ranges, TT_COUNT(ranges), code);
}
