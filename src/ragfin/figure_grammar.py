"""The grammar of the typed reader: how figures, and what only looks like one, are written.

Everything that `ragfin.figure_reader` knows about notation stands here, as tables and named patterns, in the order in
which they are tried. All patterns run on the text after `fold`, which never changes a text's length.
Every repetition is bounded or ends where the next one cannot begin, so that reading takes linear time.
"""

import re
import unicodedata

_SPACES = "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_FOLDED = {
    **{ord(c): "\u00a0" for c in _SPACES},
    **{ord(c): "'" for c in "’‘ʼ＇′´`"},
    **{ord(c): "-" for c in "‐‑‒–﹘"},
    **{ord(c): "−" for c in "−﹣"},
    **{ord(c): "\ue000" for c in "⁰¹³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉⁽⁾"},
    ord("²"): "\ue002",
    ord("٪"): "%",
    ord("￡"): "£",
    ord("￥"): "¥",
}
_FULL_WIDTH = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F) if code != 0xFF07}
_DIGITS = {
    code: str(unicodedata.decimal(chr(code)))
    for code in range(0x80, 0x20000)
    if unicodedata.decimal(chr(code), None) is not None
}
_TABLE = _DIGITS | _FULL_WIDTH | _FOLDED


def fold(text: str) -> str:
    """Return a text with one spelling for each kind of digit, hard space, apostrophe, dash and raised digit.

    One code point becomes one code point, so offsets stay those of the original. Hard and thin spaces become U+00A0,
    hyphens and the en dash ``-``, the minus sign stays U+2212, raised and lowered digits become marks that are no
    digits.

    Examples
    --------
    >>> fold("１２，５ ％")
    '12,5 %'
    """
    return text if text.isascii() else text.translate(_TABLE)


def bare(word: str) -> str:
    """Return a word in lower case without accents."""
    return "".join(c for c in unicodedata.normalize("NFD", word.lower()) if not unicodedata.combining(c))


def _rx(pattern: str) -> re.Pattern[str]:
    """Compile a verbose pattern in which an accented vowel also matches its bare and its decomposed form."""
    for vowel in "áéíóú":
        pattern = pattern.replace(vowel, f"(?:{vowel}|{bare(vowel)}\u0301?)")
    return re.compile(pattern, re.VERBOSE)


# --- units: what may follow a number -------------------------------------------------------------------------------
_CODES = ("JPY", "CAD", "AUD", "MXN", "BRL", "CNY", "SEK", "NOK", "DKK", "PLN", "ARS", "CLP", "COP", "PEN")
_MONEY = {
    "EUR": r"€ | EUR(?!\w) | (?i:euros?)(?!\w)",
    "USD": r"(?:US|U\.S\.)?\$ | U\$S | USD(?!\w) | US(?=\sdollars?) | (?i:dólar(?:es)?|dollars?)(?!\w)",
    "GBP": r"£ | GBP(?!\w) | (?i:libras?(?:\sesterlinas?)?|pounds?|sterling)(?!\w)",
    "CHF": r"CHF(?!\w) | Fr\.(?!\w) | (?i:francos?\ssuizos?|swiss\sfrancs?)(?!\w)",
    **{code: rf"{code}(?!\w)" for code in _CODES},
    "JPY": r"¥ | JPY(?!\w) | (?i:yen(?:es)?)(?!\w)",
}
_RATES = {
    "pp": r"(?i:puntos?\sporcentual(?:es)?|percentage\spoints?|p\.\s?p\.|pps?(?!\w)|p\.p(?!\w))",
    "pb": r"(?i:puntos?\s(?:básicos?|base)(?!\w)|basis\spoints?(?!\w)|p\.\s?b\.|pbs?(?!\w)|bps?(?!\w))",
    "percent": r"% | (?i:por\s(?:ciento|cien|100)|per\s?cent|pct)(?!\w)",
    "permille": r"‰ | (?i:por\smil)(?!\w)",
    "x": r"[xX×](?!\w|\s?\d) | (?i:veces|times)(?!\w)",
    "m2": r"m(?:2(?!\w)|\ue002) | (?i:metros\scuadrados|sqm|sq\.?\sm)(?!\w)",
}
_CENTS = r"(?i:céntimos?(?:\sde\seuro)?|euro\scents?|cts\.)(?!\w)"
_MONEY_AFTER = "|".join(_MONEY.values())
_UNITS = "|".join(f"(?P<{name}>{form})" for name, form in (_RATES | {"cents": _CENTS} | _MONEY).items())
_GAP = r"\*{0,2}(?:[^\S\n]|\n(?=\w))?"
UNIT = _rx(rf"{_GAP}(?i:de\s(?:los\s)?|of\s)?(?:{_UNITS})")
UNIT_NAMES = {"percent": "%", "permille": "%", "cents": "EUR"}
UNIT_POWERS = {"permille": -1, "cents": -2}

# --- scales: the power of ten between number and unit ----------------------------------------------------------------
_SCALES = {
    "e18": r"(?i:trillón|trillones)(?!\w)",
    "e12": r"(?i:billón|billones|trillions?|tn|trn)(?!\w)",
    "e9": rf"""mil(?:es\sde)?\s(?:[mM]ill\.|M[nM]?(?=\s?(?:{_MONEY_AFTER})))
             | (?i:mil(?:es\sde)?\smillones|millardos?|billions?|bn|mrd)(?!\w) | MMM(?!\w)
             | (?:mM|[bB])(?=\s?(?:{_MONEY_AFTER}))""",
    "e6": rf"""(?i:millón|millones|millions?|mill?s?\.|mill|mlns?|mio|mn)(?!\w)\.? | MM?(?!\w)\.?
             | (?:MM?|mm)(?=\s?(?:{_MONEY_AFTER}))""",
    "m": rf"m(?=\s?(?:{_MONEY_AFTER}))",
    "e3": rf"(?i:miles|mil|millar(?:es)?|thousands?)(?!\w) | [kK](?!\w) | [kK](?=\s?(?:{_MONEY_AFTER}))",
}
SCALE = _rx(
    rf"{_GAP}(?:{'|'.join(f'(?P<{name}>{form})' for name, form in _SCALES.items())})(?P<half>\sy\smedi[oa](?!\w))?"
)
SHORT_SCALE = _rx(r"\s?(?:(?P<e6>mm?)|(?P<e9>[bB]))(?!\w)")
PREFIX_POWERS = {"mM": 9, "MM": 6, "Mn": 6, "M": 6, "K": 3, "k": 3}
POWERS = {"e18": 18, "e12": 12, "e9": 9, "e6": 6, "m": 6, "e3": 3}

_MEASURED = rf"\s?(?:{'|'.join(_SCALES.values())}|{'|'.join((_RATES | _MONEY).values())})"

# --- what surrounds a number ------------------------------------------------------------------------------------------
NOTES = re.compile("[\ue000\ue002]+")
PHYSICAL = _rx(
    r"(?:[kKMGTP]?Wh?p?|[kmcMGT]?[gtml]|ha|[kK]m|h|GB|TB|MB|[kMG]?tCO\S{0,6}|CO\S{0,4}|ppm|hl|GJ|TJ|m[\ue000\ue002])(?!\w)"
)
TRAILING_MINUS = re.compile(r"[-−](?!\w|\s?[-−(\d]|\s?(?:US)?[€$£¥]\s?\d)")
COLUMN_MINUS = re.compile(r"[-−](?=\s\s?\d)")
CLOSE = re.compile(r"\s?\)")
RANGE = _rx(r"\*{0,2}\s?[-—−]\s?\*{0,2} | \s(?:a|al|hasta|to|until)\s(?:el\s|la\s|los\s|las\s|un\s|una\s)?")
DASH = _rx(r"\*{0,2}\s?[-—−]\s?\*{0,2}")
JOINED = _rx(r",?\s(?:y|e|o|ó|u|and|or)\s(?:el\s|la\s|los\s|las\s|un\s|una\s|del\s|de\s)?")
BETWEEN = _rx(r"(?i:entre|between)\s(?:el\s|la\s|los\s|las\s|un\s|una\s)?\Z")
_COUNTED = r"""\s(?:de\s)?(?:empleados|personas|trabajadores|profesionales|acciones|títulos|valores
    |participaciones|clientes|tiendas|oficinas|sucursales|centros|establecimientos|unidades|viviendas|accionistas|proveedores|habitaciones
    |puntos|horas|días|toneladas|employees|people|shares|clients|customers|stores|units|holdings)(?!\w)"""
COUNTED = _rx(_COUNTED)

# --- dates and periods ------------------------------------------------------------------------------------------------
_YEAR = r"(?:(?:19|20)\d\d|2100)(?!\d)"
_MONTH = r"""(?i:ene(?:ro)?|feb(?:rero|ruary)?|mar(?:zo|ch)?|abr(?:il)?|apr(?:il)?|mayo?|jun(?:io|e)?|jul(?:io|y)?
    |ago(?:sto)?|aug(?:ust)?|sep(?:t(?:iembre|ember)?)?|set(?:iembre)?|oct(?:ubre|ober)?|nov(?:iembre|ember)?
    |dic(?:iembre)?|dec(?:ember)?|jan(?:uary)?)(?!\w)\.?"""
MONTH = _rx(_MONTH)
MONTHS = {
    name: number
    for number, names in enumerate(
        "ene jan,feb,mar,abr apr,may,jun,jul,ago aug,sep set,oct,nov,dic dec".split(","), start=1
    )
    for name in names.split()
}
_ORDINAL_DAY = r"(?:\.?[º°]|\.?(?:er|o)|st|nd|rd|th)?"
_DATE = rf"""
      \d{{1,2}}(?P<slash>[/-])\d{{1,2}}(?P=slash)(?:{_YEAR}|\d\d(?!\d))(?!(?P=slash)\d)
    | \d{{1,2}}\.\d{{1,2}}\.{_YEAR}(?!\.\d) | \d\d\.\d\d\.\d\d(?!\d|\.\d)
    | {_YEAR}(?P<iso>[/.-])\d{{1,2}}(?P=iso)\d{{1,2}}(?!\d)(?:T\d\d:\d\d(?::\d\d)?Z?)?
    | \d{{1,2}}{_ORDINAL_DAY}(?:\s(?:de\s|of\s)?|[-/]){_MONTH}(?:,?\s(?:de\s|del\s(?:año\s)?)?|[-/]){_YEAR}
    | \d{{1,2}}{_ORDINAL_DAY}\sde\s{_MONTH}\sdel?\s(?:1\.9|2\.0)\d\d(?!\d|[.,]\d)
    | \d{{1,2}}[-/]{_MONTH}[-/]\d\d(?!\w)
    | \d{{1,2}}{_ORDINAL_DAY}\sde\s{_MONTH}
    | {_MONTH}\s\d{{1,2}}{_ORDINAL_DAY},?\s{_YEAR}
"""
_QUARTER_WORD = r"(?i:trimestre|semestre|cuatrimestre|quarter|half(?:[\s-]year)?)"
_NTH = r"""(?i:primer|segundo|tercer|cuarto|first|second|third|fourth
    |1\.?(?:er|º|st)|2\.?(?:º|nd)|3\.?(?:er|º|rd)|4\.?(?:º|th))"""
_PERIOD = rf"""
      {_YEAR}(?:\s?[-—/]\s?{_YEAR}|[-—/]\d\d)(?!\w|[.,/-]\d|{_MEASURED})
    | (?:[1-4][TQ]|[TQ][1-4]|[12][SH]|[SH][12]|(?:3|6|9|12)M)
      (?:(?:\s(?:de\s)?|[\s/-])?{_YEAR}|\s?'\d\d(?!\w)|-?\d\d(?!\w))
    | {_YEAR}[\s-]?(?:[TQ][1-4]|[SH][12])(?!\w)
    | FY\s?'?(?:{_YEAR}(?:[-/](?:{_YEAR}|\d\d)(?!\w|[.,/-]\d))?|\d\d)(?!\w)
    | {_NTH}\s{_QUARTER_WORD}(?:\s(?:de\s|del\s|of\s)?(?:año\s|ejercicio\s)?){_YEAR}
    | {_MONTH}(?:\s(?:de\s|del\s)?|[-/]){_YEAR} | {_MONTH}[-/]'?\d\d(?!\w)
    | (?:0?[1-9]|1[0-2])/{_YEAR}(?!/)
"""
PERIOD_KIND = re.compile("cuatrimestre|trimestre|semestre|quarter|half")
PERIOD_LETTERS = {"trimestre": "Q", "quarter": "Q", "semestre": "S", "half": "S", "cuatrimestre": "T"}
PERIOD_LETTERS |= {"T": "Q", "Q": "Q", "S": "S", "H": "S"}
NTH = {
    1: ("primer", "first", "1"),
    2: ("segundo", "second", "2"),
    3: ("tercer", "third", "3"),
    4: ("cuarto", "fourth", "4"),
}

# --- what is no figure ------------------------------------------------------------------------------------------------
_LABEL = rf"\d{{1,3}}(?:\.\d{{1,3}})*(?:\.?[a-z])?(?:\s?\([a-z0-9]{{1,3}}\))*(?!\w|[.,]\d|{_MEASURED})"
_LABELS = rf"{_LABEL}(?:(?:,\s?{_LABEL}){{0,9}}(?:\s?[-/+]\s?|\s(?:y|e|o|a|al|and|or|to)\s){_LABEL})?"
_REFERENCE = rf"""
      (?:NIIF|NIC|CINIIF|SIC|IFRS|IAS|IFRIC|NIA|ISA|GRI|ODS|SDG|(?i:pilar|pillar|basilea|basel|tier))[\s-]{_LABELS}
    | (?:ISO|UNE(?:-EN)?|CNAE|NACE|SFAS|ASC|EN)(?:[/\s-](?:IEC\s|EN\s|ISO\s)?)\d{{2,6}}(?:[-:.]\d{{1,4}})*
    | (?i:artículos?|arts?\.|articles?|notas?|notes?|págs?\.?|páginas?|pages?|pp?\.
      |apartados?|secci(?:ón|ones)|sections?|epígrafes?|capítulos?|chapters?|caps?\.|anexos?|annex(?:es)?|tablas?|tables?|cuadros?|gráficos?
      |figuras?|figures?|figs?\.|párrafos?|paragraphs?|cláusulas?|clauses?|items?|rules?|disposición(?:\s\w{{1,12}})?|norma|letra)
      (?:\s?n\.?\s?[ºo°]\.?)?\s?{_LABELS}(?:\sde\s\d{{1,3}}(?=\s?(?:$|[.,;:)])))?
    | §{{1,2}}\s?{_LABELS}
    | (?i:niveles|nivel|levels?|alcances?|scopes?|fases?|stages?|etapas?)
      \s[1-4](?:(?:,\s?[1-4])?(?:\sy\s|\sand\s|\s?[-+/]\s?)[1-4])?(?!\w|[.,]\d|{_MEASURED})
    | (?i:ley(?:\sorgánica)?|(?:real\s)?decreto(?:[-\s]ley|\slegislativo)?|rdl?
      |reglamento(?:\sdelegado|\sde\sejecución)?|directiva|circular|orden|decisión|resolución|regulation|directive|act|law|sentencia)
      \s(?:\((?:UE|CE|CEE|EU|EC)\)\s)?(?:n\.?\s?[ºo°]\.?\s|No\.?\s|núm\.\s|[A-Z]{{2,4}}/)?
      \d{{1,4}}/\d{{2,4}}(?:/[A-Z]{{2,3}})?
    | \(?(?:UE|CE|CEE|EU|EC)\)?\s(?:n\.?\s?[ºo°]\.?\s|No\.?\s)?\d{{1,4}}/\d{{2,4}}
    | (?i:n\.?\s?[º°]s?\.?|núm\.|número|nro\.|no\.)\s?\d+(?:[./-]\d+)*(?!\w|{_MEASURED})
    | (?i:versión|version|v\.)\s?\d+(?:\.\d+)*
"""
_INDEX = r"""
      (?i:S&P|S\s&\sP|IBEX|(?:EURO\s)?STOXX|FTSE|CAC|DAX|TecDAX|MDAX|Nasdaq|Nikkei|Topix|Russell|Dow\sJones|PSI|AEX|SMI|BEL|OMX
        |Hang\sSeng|CSI|ASX|S&P/ASX|S&P/BMV|TSX|Kospi|Nifty|Wilshire|Fortune|MSCI|IGBC|IPSA|Bovespa|Merval)
      (?:[\s-][A-Z][a-zA-Zé]{1,12}){0,3}[\s-]?(?:20|25|30|35|40|50|60|80|100|150|200|225|250|300|350|400|500|600|1000|1200|1500
        |2000|2500|3000|5000)(?!\w|[.,]\d|\s?[%€$£])
"""
_IDENTIFIER = rf"""
      (?:https?://|www\.)\S+
    | (?i:ISIN|LEI|CIF|NIF|NIE|VAT|CUSIP|SEDOL|WKN|BIC|SWIFT|DOI|tomo|folio|hoja|inscripción)
      (?:\s?:\s?|\s(?:n\.?º\s|número\s)?)
      (?=[A-Z./-]{{0,12}}\d)[A-Z0-9]+(?:[./-][A-Z0-9]+)*
    | (?i:IBAN\s?:?\s?)?[A-Z]{{2}}\d\d(?:\s\d{{4}}){{4,6}}
    | (?i:teléfono|teléf\.|telf?\.|tel\.|phone|fax|móvil)\s?:?\s?\(?\+?\d+\)?(?:[\s.-]\d+){{0,5}}
    | \d{{8}}-?[A-Z](?!\w) | \d{{1,2}}\.\d{{3}}\.\d{{3}}-?[A-Z](?!\w) | \d{{1,2}}-[A-Z](?!\w)
    | [A-Z]-\d+(?:\.\d+)*(?!\w)
    | (?!(?:EUR|USD|CHF|GBP)-)[^\W\d_]{{2,30}}-\d{{1,3}}(?!\w|[.,]\d|{_MEASURED})
    | \d{{1,2}}:\d\d(?::\d\d)?(?!\w)
    | (?:1|3|6|9|12)M(?!\w|\s?[€$£]|\s(?:EUR|USD|CHF|GBP|de\s(?:euros|dólares|libras)))
"""
_ORDINAL = r"""
      \d+\s?\.?\s?(?:[ºª]|°(?!C))(?:\s?[-/]\s?\d+\s?\.?[ºª])?
    | \d+\.?(?:er|era|ero|do|da|ro|ra|to|ta|mo|ma|vo|va|no|na|o|a|st|nd|rd|th)(?!\w)
"""
_CITATION = r"\[\d{1,4}(?:\s?[,;-]\s?\d{1,4}){0,20}\]"
_NUMBERING = r"""
      ^[ ]{0,3}(?:\#{1,6}[ ]{1,4}\d{1,2}(?:\.\d{1,2})*\.?(?=[ ])
        | \d{1,2}[.)](?=[ ]{1,4}[^\W\d]) | \(\d{1,2}\)(?=[ ]{1,4}[^\W\d])
        | \d{1,2}(?:\.\d{1,2}){1,3}\.?(?=[ ]{1,4}[A-ZÁÉÍÓÚÑ¿][^\W\d_]{3}))
"""

# --- numbers ----------------------------------------------------------------------------------------------------------
_BEFORE = {
    "EUR": "€|EUR",
    "USD": r"(?:US|U\.S\.)?\$|U\$S|USD",
    "GBP": "£|GBP",
    "CHF": r"CHF|Fr\.|SFr\.",
    **{code: code for code in _CODES},
    "JPY": "¥|JPY",
}
BEFORE = _rx("|".join(f"(?P<{name}>{form})" for name, form in _BEFORE.items()))
_SPACED = rf"""
      [1-9]\d{{0,2}}[ ]\d{{3}}(?P<third>(?:[ ]\d{{3}}){{1,4}})?(?!\w|[ ]\d|[.,]\d{{3}})(?:
        (?:[.,]\d{{1,2}}(?![\d.,]\d|\d)) | (?={_MEASURED}) | (?={_COUNTED})
        | (?(before)|(?!)) | (?<=[ ]000) | (?(third)|(?!))
      )
"""
_NUMBER = rf"""
    (?P<sign>(?<!\d)(?:[-+]|−\s?))?(?P<open>\(\s?)?(?:(?P<before>(?<![\w/])(?P<prefix>MM|Mn|mM|[MkK])?(?:{"|".join(_BEFORE.values())}))\s?)?
    (?P<inner>(?<!\d)(?:[-+]|−\s?))?
    (?P<open2>\(\s?)?(?(before)|(?<!\w)(?<!\w[.,]))
    (?P<digits>
        [1-9]\d{{0,2}}(?P<group>['\u00a0])\d{{3}}(?:(?P=group)\d{{3}})*(?!\d)(?:[.,]\d+(?![.,]?\d))?
      | {_SPACED}
      | \d+'\d\d?(?!['\d])
      | \d+(?:[.,]\d+)*
      | (?(before)[.,]\d+(?![.,]?\d)|(?!))
    )
"""
_ONES = "un uno una dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince"
_SECOND_TEN = "dieciséis diecisiete dieciocho diecinueve veinte veintiún veintiuno veintiuna veintidós veintitrés"
_LATE_TWENTIES = "veinticuatro veinticinco veintiséis veintisiete veintiocho veintinueve"
_TENS = "treinta cuarenta cincuenta sesenta setenta ochenta noventa cien"
_HUNDREDS = "doscientos trescientos cuatrocientos quinientos seiscientos setecientos ochocientos novecientos"
_NUMBER_WORDS = {
    **dict(zip(_ONES.split(), (1, 1, *range(1, 16)), strict=True)),
    **dict(zip(_SECOND_TEN.split(), (16, 17, 18, 19, 20, 21, 21, 21, 22, 23), strict=True)),
    **dict(zip(_LATE_TWENTIES.split(), range(24, 30), strict=True)),
    **dict(zip(_TENS.split(), range(30, 101, 10), strict=True)),
    **dict(zip(_HUNDREDS.split(), range(200, 1000, 100), strict=True)),
    "ciento": 100,
    "mil": 1000,
    "medio": 0,
}
_WORD = "|".join(sorted(_NUMBER_WORDS, key=len, reverse=True))
NUMBER_WORDS = {bare(word): value for word, value in _NUMBER_WORDS.items()}
_WORDS = rf"""(?i:(?:{_WORD})(?:\s(?:y\s)?(?:{_WORD})){{0,6}})(?!\w)
    (?=\s(?i:mil\smillones|millón|millones|billón|billones|por\s(?:ciento|cien)|puntos?\s(?:básicos?|porcentual)|euros?|dólar)|\s?%)"""

TOKEN = _rx(
    rf"""
    (?m:(?P<numbering>{_NUMBERING}))
  | (?P<citation>{_CITATION})
  | (?<!\w)(?=\w|§|\((?:UE|CE|EU|EC))(?:(?<!\w[.,])(?:
      (?P<reference>(?!\d)(?:{_REFERENCE})|\d{{2,4}}/\d{{1,4}}/(?:UE|CE|CEE|EU|EC)(?!\w))
    | (?P<index>(?!\d)(?:{_INDEX})|\d{{1,2}}-\d{{1,2}}(?:\s(?:años|years|yr))?(?=\s(?:UCITS|ETF)))
    | (?P<date>{_DATE})
    | (?P<period>{_PERIOD})
    | (?P<ordinal>{_ORDINAL})
    | (?P<identifier>{_IDENTIFIER})
    | (?P<words>{_WORDS})
  ))
  | (?P<number>{_NUMBER})
    """
)
"""One scan finds the next thing that holds digits; ``lastgroup`` says what it is."""
