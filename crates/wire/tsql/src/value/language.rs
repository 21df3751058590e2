//! The languages of SET LANGUAGE: the rows of `sys.syslanguages`, with the names, orders and first
//! days that SQL Server has in them.

use super::dateparse::Order;

/// A language of a session.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Language {
    pub(crate) id: u8,
    pub(crate) name: &'static str,
    pub(crate) alias: &'static str,
    pub(crate) order: Order,
    /// DATEFIRST: 1 is Monday, 7 is Sunday.
    pub(crate) first: u8,
    pub(crate) lcid: u16,
    /// The language of messages.
    pub(crate) messages: u16,
    /// FORMAT's culture where a call names none.
    pub(crate) culture: &'static str,
    /// Names from January on, with commas between them.
    months: &'static str,
    short_months: &'static str,
    /// From Monday on.
    days: &'static str,
}

/// The lists of names, as `sys.syslanguages` has them.
pub(crate) struct Lists {
    pub(crate) months: &'static str,
    pub(crate) short_months: &'static str,
    pub(crate) days: &'static str,
}

impl Language {
    /// Returns the language of this official name or alias.
    pub(crate) fn find(name: &str) -> Option<&'static Language> {
        let wanted = name.trim_end_matches(' ').to_lowercase();
        let is = |known: &str| known.to_lowercase() == wanted;
        ALL.iter().find(|known| is(known.name) || is(known.alias))
    }

    /// Returns the language of this number; us_english for others.
    pub(crate) fn of(id: u8) -> &'static Language {
        ALL.get(usize::from(id)).unwrap_or(&US_ENGLISH)
    }

    pub(crate) fn lists(&self) -> Lists {
        Lists { months: self.months, short_months: self.short_months, days: self.days }
    }

    /// Returns the name of a month, from 1 on.
    pub(crate) fn month(&self, month: i64) -> &'static str {
        nth(self.months, month - 1)
    }

    pub(crate) fn short_month(&self, month: i64) -> &'static str {
        nth(self.short_months, month - 1)
    }

    /// Returns the name of a day of the week; 0 is Monday.
    pub(crate) fn day(&self, day: i64) -> &'static str {
        nth(self.days, day)
    }

    /// Returns the month of a name, long or short. Languages whose names are digits have none.
    pub(crate) fn month_number(&self, word: &str) -> Option<i64> {
        if word.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let word = word.to_lowercase();
        let among = |names: &str| names.split(',').position(|name| name.to_lowercase() == word);
        let at = among(self.months).or_else(|| among(self.short_months))?;
        i64::try_from(at + 1).ok()
    }
}

fn nth(names: &'static str, at: i64) -> &'static str {
    usize::try_from(at).ok().and_then(|at| names.split(',').nth(at)).unwrap_or_default()
}

/// The server's language.
pub(crate) static US_ENGLISH: Language = ENGLISH;

const ENGLISH: Language = Language {
    id: 0,
    name: "us_english",
    alias: "English",
    order: Order::Mdy,
    first: 7,
    lcid: 1033,
    messages: 1033,
    culture: "en-US",
    months: "January,February,March,April,May,June,July,August,September,October,November,\
             December",
    short_months: SHORT,
    days: "Monday,Tuesday,Wednesday,Thursday,Friday,Saturday,Sunday",
};
const SHORT: &str = "Jan,Feb,Mar,Apr,May,Jun,Jul,Aug,Sep,Oct,Nov,Dec";
const DIGITS: &str = "01,02,03,04,05,06,07,08,09,10,11,12";
const ROMAN: &str = "I,II,III,IV,V,VI,VII,VIII,IX,X,XI,XII";
const BULGARIAN: &str = "януари,февруари,март,април,май,юни,юли,август,септември,октомври,\
                         ноември,декември";

/// Day, month, year, in weeks from Monday on.
const fn row(
    (id, lcid, culture): (u8, u16, &'static str),
    (name, alias): (&'static str, &'static str),
    months: &'static str,
    short_months: &'static str,
    days: &'static str,
) -> Language {
    Language {
        id,
        name,
        alias,
        order: Order::Dmy,
        first: 1,
        lcid,
        messages: lcid,
        culture,
        months,
        short_months,
        days,
    }
}

impl Language {
    const fn by_year(mut self) -> Language {
        self.order = Order::Ymd;
        self
    }

    const fn sunday_first(mut self) -> Language {
        self.first = 7;
        self
    }
}

/// In the order of their numbers.
pub(crate) static ALL: &[Language] = &[
    ENGLISH,
    row(
        (1, 1031, "de-DE"),
        ("Deutsch", "German"),
        "Januar,Februar,März,April,Mai,Juni,Juli,August,September,Oktober,November,Dezember",
        "Jan,Feb,Mär,Apr,Mai,Jun,Jul,Aug,Sep,Okt,Nov,Dez",
        "Montag,Dienstag,Mittwoch,Donnerstag,Freitag,Samstag,Sonntag",
    ),
    row(
        (2, 1036, "fr-FR"),
        ("Français", "French"),
        "janvier,février,mars,avril,mai,juin,juillet,août,septembre,octobre,novembre,décembre",
        "janv,févr,mars,avr,mai,juin,juil,août,sept,oct,nov,déc",
        "lundi,mardi,mercredi,jeudi,vendredi,samedi,dimanche",
    ),
    row(
        (3, 1041, "ja-JP"),
        ("日本語", "Japanese"),
        DIGITS,
        DIGITS,
        "月曜日,火曜日,水曜日,木曜日,金曜日,土曜日,日曜日",
    )
    .by_year()
    .sunday_first(),
    row(
        (4, 1030, "da-DK"),
        ("Dansk", "Danish"),
        "januar,februar,marts,april,maj,juni,juli,august,september,oktober,november,december",
        "jan,feb,mar,apr,maj,jun,jul,aug,sep,okt,nov,dec",
        "mandag,tirsdag,onsdag,torsdag,fredag,lørdag,søndag",
    ),
    row(
        (5, 3082, "es-ES"),
        ("Español", "Spanish"),
        "Enero,Febrero,Marzo,Abril,Mayo,Junio,Julio,Agosto,Septiembre,Octubre,Noviembre,Diciembre",
        "Ene,Feb,Mar,Abr,May,Jun,Jul,Ago,Sep,Oct,Nov,Dic",
        "Lunes,Martes,Miércoles,Jueves,Viernes,Sábado,Domingo",
    ),
    row(
        (6, 1040, "it-IT"),
        ("Italiano", "Italian"),
        "gennaio,febbraio,marzo,aprile,maggio,giugno,luglio,agosto,settembre,ottobre,\
         novembre,dicembre",
        "gen,feb,mar,apr,mag,giu,lug,ago,set,ott,nov,dic",
        "lunedì,martedì,mercoledì,giovedì,venerdì,sabato,domenica",
    ),
    row(
        (7, 1043, "nl-NL"),
        ("Nederlands", "Dutch"),
        "januari,februari,maart,april,mei,juni,juli,augustus,september,oktober,november,december",
        "jan,feb,mrt,apr,mei,jun,jul,aug,sep,okt,nov,dec",
        "maandag,dinsdag,woensdag,donderdag,vrijdag,zaterdag,zondag",
    ),
    row(
        (8, 2068, "nn-NO"),
        ("Norsk", "Norwegian"),
        "januar,februar,mars,april,mai,juni,juli,august,september,oktober,november,desember",
        "jan,feb,mar,apr,mai,jun,jul,aug,sep,okt,nov,des",
        "mandag,tirsdag,onsdag,torsdag,fredag,lørdag,søndag",
    ),
    row(
        (9, 2070, "pt-PT"),
        ("Português", "Portuguese"),
        "janeiro,fevereiro,março,abril,maio,junho,julho,agosto,setembro,outubro,novembro,dezembro",
        "jan,fev,mar,abr,mai,jun,jul,ago,set,out,nov,dez",
        "segunda-feira,terça-feira,quarta-feira,quinta-feira,sexta-feira,sábado,domingo",
    )
    .sunday_first(),
    row(
        (10, 1035, "fi-FI"),
        ("Suomi", "Finnish"),
        "tammikuuta,helmikuuta,maaliskuuta,huhtikuuta,toukokuuta,kesäkuuta,heinäkuuta,\
         elokuuta,syyskuuta,lokakuuta,marraskuuta,joulukuuta",
        "tammi,helmi,maalis,huhti,touko,kesä,heinä,elo,syys,loka,marras,joulu",
        "maanantai,tiistai,keskiviikko,torstai,perjantai,lauantai,sunnuntai",
    ),
    row(
        (11, 1053, "sv-SE"),
        ("Svenska", "Swedish"),
        "januari,februari,mars,april,maj,juni,juli,augusti,september,oktober,november,december",
        "jan,feb,mar,apr,maj,jun,jul,aug,sep,okt,nov,dec",
        "måndag,tisdag,onsdag,torsdag,fredag,lördag,söndag",
    )
    .by_year(),
    row(
        (12, 1029, "cs-CZ"),
        ("čeština", "Czech"),
        "leden,únor,březen,duben,květen,červen,červenec,srpen,září,říjen,listopad,prosinec",
        ROMAN,
        "pondělí,úterý,středa,čtvrtek,pátek,sobota,neděle",
    ),
    row(
        (13, 1038, "hu-HU"),
        ("magyar", "Hungarian"),
        "január,február,március,április,május,június,július,augusztus,szeptember,október,\
         november,december",
        "jan,febr,márc,ápr,máj,jún,júl,aug,szept,okt,nov,dec",
        "hétfő,kedd,szerda,csütörtök,péntek,szombat,vasárnap",
    )
    .by_year(),
    row(
        (14, 1045, "pl-PL"),
        ("polski", "Polish"),
        "styczeń,luty,marzec,kwiecień,maj,czerwiec,lipiec,sierpień,wrzesień,październik,\
         listopad,grudzień",
        ROMAN,
        "poniedziałek,wtorek,środa,czwartek,piątek,sobota,niedziela",
    ),
    row(
        (15, 1048, "ro-RO"),
        ("română", "Romanian"),
        "ianuarie,februarie,martie,aprilie,mai,iunie,iulie,august,septembrie,octombrie,\
         noiembrie,decembrie",
        "Ian,Feb,Mar,Apr,Mai,Iun,Iul,Aug,Sep,Oct,Nov,Dec",
        "luni,marţi,miercuri,joi,vineri,sîmbătă,duminică",
    ),
    row(
        (16, 1050, "hr-HR"),
        ("hrvatski", "Croatian"),
        "siječanj,veljača,ožujak,travanj,svibanj,lipanj,srpanj,kolovoz,rujan,listopad,\
         studeni,prosinac",
        "sij,vel,ožu,tra,svi,lip,srp,kol,ruj,lis,stu,pro",
        "ponedjeljak,utorak,srijeda,četvrtak,petak,subota,nedjelja",
    )
    .by_year(),
    row(
        (17, 1051, "sk-SK"),
        ("slovenčina", "Slovak"),
        "január,február,marec,apríl,máj,jún,júl,august,september,október,november,december",
        ROMAN,
        "pondelok,utorok,streda,štvrtok,piatok,sobota,nedeľa",
    ),
    row(
        (18, 1060, "sl-SI"),
        ("slovenski", "Slovenian"),
        "januar,februar,marec,april,maj,junij,julij,avgust,september,oktober,november,december",
        "jan,feb,mar,apr,maj,jun,jul,avg,sept,okt,nov,dec",
        "ponedeljek,torek,sreda,četrtek,petek,sobota,nedelja",
    ),
    row(
        (19, 1032, "el-GR"),
        ("ελληνικά", "Greek"),
        "Ιανουαρίου,Φεβρουαρίου,Μαρτίου,Απριλίου,Μα_ου,Ιουνίου,Ιουλίου,Αυγούστου,Σεπτεμβρίου,\
         Οκτωβρίου,Νοεμβρίου,Δεκεμβρίου",
        "Ιαν,Φεβ,Μαρ,Απρ,Μαϊ,Ιουν,Ιουλ,Αυγ,Σεπ,Οκτ,Νοε,Δεκ",
        "Δευτέρα,Τρίτη,Τετάρτη,Πέμπτη,Παρασκευή,Σάββατο,Κυριακή",
    ),
    row(
        (20, 1026, "bg-BG"),
        ("български", "Bulgarian"),
        BULGARIAN,
        BULGARIAN,
        "понеделник,вторник,сряда,четвъртък,петък,събота,неделя",
    ),
    row(
        (21, 1049, "ru-RU"),
        ("русский", "Russian"),
        "Январь,Февраль,Март,Апрель,Май,Июнь,Июль,Август,Сентябрь,Октябрь,Ноябрь,Декабрь",
        "янв,фев,мар,апр,май,июн,июл,авг,сен,окт,ноя,дек",
        "понедельник,вторник,среда,четверг,пятница,суббота,воскресенье",
    ),
    row(
        (22, 1055, "tr-TR"),
        ("Türkçe", "Turkish"),
        "Ocak,Şubat,Mart,Nisan,Mayıs,Haziran,Temmuz,Ağustos,Eylül,Ekim,Kasım,Aralık",
        "Oca,Şub,Mar,Nis,May,Haz,Tem,Ağu,Eyl,Eki,Kas,Ara",
        "Pazartesi,Salı,Çarşamba,Perşembe,Cuma,Cumartesi,Pazar",
    ),
    Language {
        id: 23,
        name: "British",
        alias: "British English",
        order: Order::Dmy,
        first: 1,
        lcid: 2057,
        culture: "en-GB",
        ..ENGLISH
    },
    row(
        (24, 1061, "et-EE"),
        ("eesti", "Estonian"),
        "jaanuar,veebruar,märts,aprill,mai,juuni,juuli,august,september,oktoober,november,\
         detsember",
        "jaan,veebr,märts,apr,mai,juuni,juuli,aug,sept,okt,nov,dets",
        "esmaspäev,teisipäev,kolmapäev,neljapäev,reede,laupäev,pühapäev",
    ),
    row(
        (25, 1062, "lv-LV"),
        ("latviešu", "Latvian"),
        "janvāris,februāris,marts,aprīlis,maijs,jūnijs,jūlijs,augusts,septembris,oktobris,\
         novembris,decembris",
        "jan,feb,mar,apr,mai,jūn,jūl,aug,sep,okt,nov,dec",
        "pirmdiena,otrdiena,trešdiena,ceturtdiena,piektdiena,sestdiena,svētdiena",
    )
    .by_year(),
    row(
        (26, 1063, "lt-LT"),
        ("lietuvių", "Lithuanian"),
        "sausis,vasaris,kovas,balandis,gegužė,birželis,liepa,rugpjūtis,rugsėjis,spalis,\
         lapkritis,gruodis",
        "sau,vas,kov,bal,geg,bir,lie,rgp,rgs,spl,lap,grd",
        "pirmadienis,antradienis,trečiadienis,ketvirtadienis,penktadienis,šeštadienis,sekmadienis",
    )
    .by_year(),
    row(
        (27, 1046, "pt-BR"),
        ("Português (Brasil)", "Brazilian"),
        "Janeiro,Fevereiro,Março,Abril,Maio,Junho,Julho,Agosto,Setembro,Outubro,Novembro,Dezembro",
        "Jan,Fev,Mar,Abr,Mai,Jun,Jul,Ago,Set,Out,Nov,Dez",
        "Segunda-Feira,Terça-Feira,Quarta-Feira,Quinta-Feira,Sexta-Feira,Sábado,Domingo",
    )
    .sunday_first(),
    row(
        (28, 1028, "zh-TW"),
        ("繁體中文", "Traditional Chinese"),
        "一月,二月,三月,四月,五月,六月,七月,八月,九月,十月,十一月,十二月",
        DIGITS,
        "星期一,星期二,星期三,星期四,星期五,星期六,星期日",
    )
    .by_year()
    .sunday_first(),
    row(
        (29, 1042, "ko-KR"),
        ("한국어", "Korean"),
        DIGITS,
        DIGITS,
        "월요일,화요일,수요일,목요일,금요일,토요일,일요일",
    )
    .by_year()
    .sunday_first(),
    row(
        (30, 2052, "zh-CN"),
        ("简体中文", "Simplified Chinese"),
        DIGITS,
        DIGITS,
        "星期一,星期二,星期三,星期四,星期五,星期六,星期日",
    )
    .by_year()
    .sunday_first(),
    row(
        (31, 1025, "ar-SA"),
        ("Arabic", "Arabic"),
        "Muharram,Safar,Rabie I,Rabie II,Jumada I,Jumada II,Rajab,Shaaban,Ramadan,Shawwal,\
         Thou Alqadah,Thou Alhajja",
        SHORT,
        ENGLISH.days,
    ),
    row(
        (32, 1054, "th-TH"),
        ("ไทย", "Thai"),
        "มกราคม,กุมภาพันธ์,มีนาคม,เมษายน,พฤษภาคม,มิถุนายน,กรกฎาคม,สิงหาคม,กันยายน,ตุลาคม,\
         พฤศจิกายน,ธันวาคม",
        "ม.ค.,ก.พ.,มี.ค.,เม.ย.,พ.ค.,มิ.ย.,ก.ค.,ส.ค.,ก.ย.,ต.ค.,พ.ย.,ธ.ค.",
        "จันทร์,อังคาร,พุธ,พฤหัสบดี,ศุกร์,เสาร์,อาทิตย์",
    )
    .sunday_first(),
    row(
        (33, 1044, "nb-NO"),
        ("norsk (bokmål)", "Bokmål"),
        "januar,februar,mars,april,mai,juni,juli,august,september,oktober,november,desember",
        "jan,feb,mar,apr,mai,jun,jul,aug,sep,okt,nov,des",
        "mandag,tirsdag,onsdag,torsdag,fredag,lørdag,søndag",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_has_its_number_and_all_names() {
        assert_eq!(ALL.len(), 34);
        for (at, language) in ALL.iter().enumerate() {
            assert_eq!(usize::from(language.id), at);
            assert_eq!(*Language::of(language.id), *language);
            for (names, count) in
                [(language.months, 12), (language.short_months, 12), (language.days, 7)]
            {
                assert_eq!(names.split(',').count(), count, "{}", language.name);
                assert!(names.split(',').all(|name| !name.trim().is_empty()), "{}", language.name);
            }
            for name in [language.name, language.alias] {
                let found = Language::find(&name.to_uppercase());
                assert_eq!(found.map(|found| found.id), Some(language.id));
            }
        }
        assert_eq!(Language::find("Klingon"), None);
    }

    #[test]
    fn months_are_found_by_their_names() {
        let of = |language: &str, word: &str| Language::find(language).unwrap().month_number(word);
        assert_eq!(of("English", "sep"), Some(9));
        assert_eq!(of("English", "SEPTEMBER"), Some(9));
        assert_eq!(of("English", "Sept"), None);
        assert_eq!(of("German", "MÄRZ"), Some(3));
        assert_eq!(of("German", "May"), None);
        assert_eq!(of("Polish", "xii"), Some(12));
        assert_eq!(of("Japanese", "01"), None);
    }
}
