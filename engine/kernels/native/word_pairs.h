/* Sums of sketches by pairs of int16, where bytes are not multiplied. Included by the words of an instruction set. */
#ifndef OCTAVO_WORD_PAIRS_H
#define OCTAVO_WORD_PAIRS_H

/* What numbers of 2 bits are multiplied with. */
typedef struct {
    int16_t channels[MOST_DIM + 32];
} Factors;
typedef N SketchSums;

INLINE void put_factors(W v, int64_t i, Factors *to) { w_store(to->channels + i, v); }
INLINE SketchSums no_sums(void) { return n_zero(); }
INLINE N n_from_sums(const SketchSums *s) { return *s; }

/* Adds the products of sixteen words with the factors of their channels, from number `i` on: two channels of 2 bits
 * stand at the bottom of a word's halves, after it is shifted the next two. */
INLINE void add_words(const int n, N words, const Factors *factors, int64_t i, SketchSums *sums) {
    for (int j = 0; j < 16; j += 2, words = n_next_pair(words)) {
        const N pair = n_pair(words);
        for (int h = 0; h < n; h++) sums[h] = n_dot_pair(pair, factors[h].channels + i + j, sums[h]);
    }
}

#endif
