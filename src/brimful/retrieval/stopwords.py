"""Words that say how a sentence is built, not what it is about.

Rarity alone weighs them little, but a short history has too few sentences to tell. A language that is not listed here
is searched all the same, a little less well. What is a function word in one language and bears meaning in English
("die", "son", "pour") is left out of the lists.
"""

from typing import Final

_ENGLISH: Final = """
a about above after again against all also am an and any are aren't as at be because been before being below between
both but by can can't cannot could couldn't did didn't do does doesn't doing don't down during each few for from
further had hadn't has hasn't have haven't having he he'd he'll he's her here here's hers herself him himself his how
how's i i'd i'll i'm i've if in into is isn't it it'd it'll it's its itself just let's me more most my myself no nor
not now of off on once only or other our ours ourselves out over own same shan't she she'd she'll she's should
shouldn't so some such than that that'll that's the their theirs them themselves then there there's these they they'd
they'll they're they've this those through to too under until up us very was wasn't we we'd we'll we're we've were
weren't what what's when when's where where's which while who who's whom whose why why's will with won't would
wouldn't you you'd you'll you're you've your yours yourself yourselves
"""

_GERMAN: Final = """
aber auf aus bei bist da damit dass dein deine dem denn der des dich dir doch du durch ein eine einem einen einer
eines er es euch für habe haben hast hatte hatten ich ihm ihn ihr ihre im ist ja kann kein keine können mein meine
mich mir nach nicht noch nur ob oder ohne schon sehr sein seine sich sie sind soll über um und uns unser unter vom von
vor wann waren warum was weil welche welcher welches wem wen wenn wer werden wie wieder wir wird wo würde wurde zu zum
zur
"""

_FRENCH: Final = """
au aux avec avons avez avoir c'est ce ces cette dans de des du elle elles en est et été être eux il ils je j'ai la le
les leur leurs lui ma mais mes moi mon ne notre nous ont ou où pourquoi qu'est qu'il qu'elle quand que quel quelle
quelles quels qui quoi sa se ses sont ta te tes toi tu un une vos votre vous était
"""

_SPANISH_AND_PORTUGUESE: Final = """
al ao aos aquel aquela aquele aquello aqui aquí cómo con cuando cuándo cual cuál da de del dela dele desde dónde
durante e é ela elas ele eles ella ellas ellos em en entre es esa ese eso essa esse esta está están estão este esto
estoy eu foi fue fueron ha había hasta isso isto la las le les lo los mais más mas meu minha mis mucho muito na não
nas no nosotros nossa nosso o onde os para pela pelo pero por porque qual quando que qué quem quién se sem ser seu si
sí sobre sou soy sua su sus também también te tem tiene tu tus um uma un una unas unos você vocês y ya yo
"""

_ITALIAN_AND_DUTCH: Final = """
agli al alla alle allo anche che ci con cosa cui da dai dal dalla degli del della delle di e è erano essere gli ha
hanno ho i il in io la le lei lo loro lui ma mio ne nel nella noi non o perché più quale quando quello questa questo
se si sia siamo sono sua sugli sul sulla suo ti tra tu tua tuo un una uno aan bij dat de deze een en er geen had heb
hebben heeft het hij hoe ik je jij jullie maar meer met mijn naar niet nog om ook op te uit voor waar waarom wanneer
was wat we wie wij wordt zal ze zich zij zijn zo
"""

STOPWORDS: Final = frozenset(f"{_ENGLISH} {_GERMAN} {_FRENCH} {_SPANISH_AND_PORTUGUESE} {_ITALIAN_AND_DUTCH}".split())
