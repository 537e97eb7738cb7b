/*
** $Id: lstring.c,v 2.8.1.1 2007/12/27 13:02:25 roberto Exp $
** String table (keeps all strings handled by Lua)
** See Copyright Notice in lua.h
*/


#include <limits.h>
#include <string.h>

#define lstring_c
#define LUA_CORE

#include "lua.h"

#include "ldebug.h"
#include "lmem.h"
#include "lobject.h"
#include "lstate.h"
#include "lstring.h"



/*
** Apus: the key of all hashes that many strings or numbers meet in, and hashing
** by it: two words at a time, multiplied to twice their width and folded.
*/
static lu_int64 hashkey[2] = {0x9e3779b97f4a7c15u, 0xd1b54a32d192ed03u};


LUA_API void lua_sethashkey (const unsigned char key[16]) {
  memcpy(hashkey, key, sizeof(hashkey));
}


static lu_int64 fold (lu_int64 a, lu_int64 b) {
  unsigned __int128 product = (unsigned __int128)a * b;
  return (lu_int64)product ^ (lu_int64)(product >> 64);
}


static lu_int64 word (const char *s, size_t l) {
  lu_int64 w = 0;
  memcpy(&w, s, l);
  return w;
}


static unsigned int keyedhash (const char *s, size_t l) {
  lu_int64 h = hashkey[0] ^ l;
  for (; l > 16; s += 16, l -= 16)
    h = fold(word(s, 8) ^ hashkey[1], word(s + 8, 8) ^ h);
  if (l >= 8)
    h = fold(word(s, 8) ^ hashkey[1], word(s + l - 8, 8) ^ h);
  else if (l >= 4)
    h = fold((word(s, 4) << 32 | word(s + l - 4, 4)) ^ hashkey[1], h);
  else if (l > 0)
    h = fold((word(s, 1) << 16 | word(s + l/2, 1) << 8 | word(s + l - 1, 1)) ^ hashkey[1], h);
  h = fold(h ^ hashkey[0], hashkey[1]);
  return (unsigned int)(h ^ (h >> 32));
}


unsigned int luaS_hashnumber (lua_Number n) {
  lu_int64 h = fold(word((const char *)&n, 8) ^ hashkey[1], hashkey[0]);
  h = fold(h ^ hashkey[0], hashkey[1]);
  return (unsigned int)(h ^ (h >> 32));
}


void luaS_resize (lua_State *L, int newsize) {
  GCObject **newhash;
  stringtable *tb;
  int i;
  if (G(L)->gcstate == GCSsweepstring)
    return;  /* cannot resize during GC traverse */
  newhash = luaM_newvector(L, newsize, GCObject *);
  tb = &G(L)->strt;
  for (i=0; i<newsize; i++) newhash[i] = NULL;
  /* rehash */
  for (i=0; i<tb->size; i++) {
    GCObject *p = tb->hash[i];
    while (p) {  /* for each node in the list */
      GCObject *next = p->gch.next;  /* save next */
      unsigned int h = gco2ts(p)->keyed;
      int h1 = lmod(h, newsize);  /* new position */
      lua_assert(cast_int(h%newsize) == lmod(h, newsize));
      p->gch.next = newhash[h1];  /* chain it */
      newhash[h1] = p;
      p = next;
    }
  }
  luaM_freearray(L, tb->hash, tb->size, TString *);
  tb->size = newsize;
  tb->hash = newhash;
}


static TString *newlstr (lua_State *L, const char *str, size_t l,
                                       unsigned int keyed) {
  TString *ts;
  stringtable *tb;
  unsigned int h = cast(unsigned int, l);  /* seed */
  size_t step = (l>>5)+1;  /* if string is too long, don't hash all its chars */
  size_t l1;
  if (l > UINT_MAX)
    luaM_toobig(L);
  for (l1=l; l1>=step; l1-=step)  /* compute hash */
    h = h ^ ((h<<5)+(h>>2)+cast(unsigned char, str[l1-1]));
  ts = cast(TString *, luaM_malloc(L, (l+1)*sizeof(char)+sizeof(TString)));
  ts->tsv.len = cast(unsigned int, l);
  ts->tsv.hash = h;
  ts->tsv.keyed = keyed;
  ts->tsv.marked = luaC_white(G(L));
  ts->tsv.tt = LUA_TSTRING;
  ts->tsv.reserved = 0;
  memcpy(ts+1, str, l*sizeof(char));
  ((char *)(ts+1))[l] = '\0';  /* ending 0 */
  tb = &G(L)->strt;
  h = lmod(keyed, tb->size);
  ts->tsv.next = tb->hash[h];  /* chain new entry */
  tb->hash[h] = obj2gco(ts);
  tb->nuse++;
  if (tb->nuse > cast(lu_int32, tb->size) && tb->size <= MAX_INT/2)
    luaS_resize(L, tb->size*2);  /* too crowded */
  return ts;
}


TString *luaS_newlstr (lua_State *L, const char *str, size_t l) {
  GCObject *o;
  unsigned int h = keyedhash(str, l);
  if (l > 64) luaG_charge(L, l >> 6);  /* a step for each cache line */
  for (o = G(L)->strt.hash[lmod(h, G(L)->strt.size)];
       o != NULL;
       o = o->gch.next) {
    TString *ts = rawgco2ts(o);
    luaG_charge(L, 1);
    if (ts->tsv.keyed == h && ts->tsv.len == l && (memcmp(str, getstr(ts), l) == 0)) {
      /* string may be dead */
      if (isdead(G(L), o)) changewhite(o);
      return ts;
    }
  }
  return newlstr(L, str, l, h);  /* not found */
}


Udata *luaS_newudata (lua_State *L, size_t s, Table *e) {
  Udata *u;
  if (s > MAX_SIZET - sizeof(Udata))
    luaM_toobig(L);
  u = cast(Udata *, luaM_malloc(L, s + sizeof(Udata)));
  u->uv.marked = luaC_white(G(L));  /* is not finalized */
  u->uv.tt = LUA_TUSERDATA;
  u->uv.len = s;
  u->uv.metatable = NULL;
  u->uv.env = e;
  /* chain it on udata list (after main thread) */
  u->uv.next = G(L)->mainthread->next;
  G(L)->mainthread->next = obj2gco(u);
  return u;
}

